#ifndef MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tables/row_sum.h"
#include "worker/nn/loss_scaling.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/no_cuts_for_testing.h"
#include "worker/strategy/shard_state.h"
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
  static absl::StatusOr<std::unique_ptr<LocalStrategy>> Create(
      const v1::TablesSchema& schema, LossScaling loss_scaling = LossScaling());

  absl::StatusOr<uint64_t> Start() override { return state_->clock(); }
  void SetRateFactor(double factor) override { rate_factor_ = factor; }
  // FailedPrecondition: the clock is not the next one.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return copies_.parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override {
    return micro_batches_ == 1 ? Accumulation::kWrite : Accumulation::kAdd;
  }
  GradientSpans gradients() const override { return gradients_; }
  float loss_scale() const override { return loss_scaling_.scale(); }
  absl::Status GradientReady(int unit) override { return absl::OkStatus(); }
  absl::Status PushRows(MicroBatch& micro_batch) override;
  absl::Status EndStep() override;
  // Nothing outlives this process, so a cut has no files.
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return CutFiles(); }
  BackgroundCuts& background_cuts() override { return cuts_; }
  const LossScaler* loss_scaler() const override { return loss_scaling_.scaler(); }
  StrategyCounters counters() const override { return counters_; }

  const ShardState& state() const { return *state_; }

 private:
  LocalStrategy(std::unique_ptr<ShardState> state, LossScaling loss_scaling);

  const std::unique_ptr<ShardState> state_;
  NoCuts cuts_;
  LossScaling loss_scaling_;
  StrategyCounters counters_;
  LowPrecisionCopies copies_;
  Arena sums_;
  // The gradients in sums_, by tensor and by part of the shard layout.
  const std::vector<absl::Span<float>> gradients_;
  const std::vector<absl::Span<float>> slices_;
  // By sparse table.
  std::vector<RowSum> rows_;
  // Of the step, those that BeforeBackward has seen.
  int micro_batches_ = 0;
  uint64_t examples_ = 0;
  double rate_factor_ = 1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_LOCAL_STRATEGY_FOR_TESTING_H_
