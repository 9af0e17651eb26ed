#ifndef MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
}  // namespace v1

// Everything in this process: parameters, rows and optimizer, one worker, no servers. The plain
// form of what servers do under BSP, and so the reference that the distributed strategies are
// compared with: a step divides the gradient by its examples, clips it, and applies the optimizer
// once to every tensor and every row that was pushed.
class LocalStrategy final : public Strategy {
 public:
  // InvalidArgument: the schema is not valid.
  static absl::StatusOr<std::unique_ptr<LocalStrategy>> Create(const v1::TablesSchema& schema);

  absl::StatusOr<uint64_t> Start() override { return 0; }
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status BeforeForward(int unit) override { return absl::OkStatus(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples) override;
  absl::Status GradientReady(int unit) override { return absl::OkStatus(); }
  absl::Status PushRows(const MicroBatch& micro_batch) override;
  absl::Status EndStep() override;
  // Nothing outlives this process, so a cut has no files.
  absl::StatusOr<std::vector<CutPiece>> Cut(uint64_t clock) override {
    return std::vector<CutPiece>();
  }
  ParameterSpans parameters() const override { return parameters_; }
  GradientSpans gradients() const override { return gradients_; }
  StrategyCounters counters() const override { return StrategyCounters(); }

  // Keys of a table that were ever pushed, ascending.
  std::vector<uint64_t> Keys(int table) const;

 private:
  // Rows pushed in this step.
  struct PushedRows {
    std::vector<uint64_t> keys;
    std::vector<float> gradients;
  };

  LocalStrategy(const v1::TablesSchema& schema, std::unique_ptr<const Optimizer> dense_optimizer,
                std::unique_ptr<const Optimizer> row_optimizer);

  // Weights, then the optimizer's slots; made from the initial value if it is not there.
  std::vector<float>& Row(int table, uint64_t key);
  double SquaredNorm() const;

  const std::unique_ptr<v1::TablesSchema> schema_;
  const Tables tables_;
  const DenseLayout layout_;
  const std::unique_ptr<const Optimizer> dense_optimizer_;
  const std::unique_ptr<const Optimizer> row_optimizer_;

  Arena values_;
  Arena sums_;
  std::vector<absl::Span<float>> weights_;
  std::vector<absl::Span<const float>> parameters_;
  std::vector<absl::Span<float>> gradients_;
  // By tensor.
  std::vector<std::vector<float>> slots_;
  // By sparse table.
  std::vector<absl::flat_hash_map<uint64_t, std::vector<float>>> rows_;
  std::vector<PushedRows> pushed_;

  uint64_t clock_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_H_
