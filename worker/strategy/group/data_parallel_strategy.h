#ifndef MUSTER_WORKER_STRATEGY_GROUP_DATA_PARALLEL_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_GROUP_DATA_PARALLEL_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/rounded_copies.h"
#include "worker/strategy/group/bucket_plan.h"
#include "worker/strategy/group/gradient_reducer.h"
#include "worker/strategy/group/kept_shard.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/group/row_exchange.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

struct DataParallelOptions {
  // Of each collective call of a step, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // Of calls in which ranks may have to wait for another's storage: when they join, and in cuts.
  absl::Duration storage_timeout = absl::Minutes(10);
  // Hybrid jobs: the half on servers.
  ParameterServerStrategy::Options servers;
};

struct DataParallelDependencies {
  // Both outlive the strategy.
  CheckpointStorage* storage = nullptr;
  const Clock* clock = nullptr;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  // Hybrid jobs: the way to the servers.
  ShardRouterDependencies routing;
};

// Every worker holds a replica of the parameters; workers sum their gradients by all-reduce, and
// each runs the optimizer over its whole replica. As the sums are the same bits on every rank, so
// are the replicas, step after step.
//
//   Join              all ranks take over one replica (or all start from the order's checkpoint)
//   Acquire(u)        makes the unit's 16-bit copies, once per step; nothing to wait for
//   GradientReady(u)  in the last micro-batch, starts the buckets that are complete with unit u, in
//                     the plan's order (bucket_plan.h), while backward goes on
//   EndStep           waits for all buckets, gathers example counts and rows, and only when all of
//                     that succeeded steps the replica
//
// Sparse tables, as the job's update says, are part of the replica (rows are gathered,
// row_exchange.h) or on servers (hybrid: the servers' half has its tables alone, and ends its clock
// with this one).
//
// After a hook failed with Unavailable, DeadlineExceeded or Aborted from a collective, the replica
// is as it was before the step or, if this rank's part had succeeded already, after it:
// replica_clock() says which; other ranks differ by at most one. With another communicator Join
// brings them together again, in the same process, and the trainer repeats from what Start returns.
// A hybrid job does not do so: its servers may be ahead.
//
// In BSP with `deterministic`, results equal those on parameter servers bit for bit: both sum by
// slot, take norms block by block, and divide once.
class DataParallelStrategy final : public Strategy, public ReplicaGroup {
 public:
  // `schema` is the job's. InvalidArgument: the schema is not valid.
  static absl::StatusOr<std::unique_ptr<DataParallelStrategy>> Create(
      const v1::TaskOrder& order, const v1::TablesSchema& schema,
      const DataParallelOptions& options, DataParallelDependencies dependencies);

  ~DataParallelStrategy() override;

  uint64_t bucket_plan_fingerprint() const override { return BucketPlanFingerprint(plan_); }
  absl::optional<uint64_t> replica_clock() const override { return kept_->clock(); }
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  void Leave() override;
  const Communicator* communicator() const override { return communicator_.get(); }
  // Thread-safe ways into it (Abort, recorder) start here.
  Communicator* communicator() { return communicator_.get(); }
  TrainingState& state() override { return *this; }

  // After each Join: the clock to go on from. Aborted: a hybrid job's servers are at another clock
  // than the replica; the job must return to a cut.
  absl::StatusOr<uint64_t> Start() override;
  // FailedPrecondition: no group was joined, or the clock is not the replica's.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return copies_.parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override;
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override {
    return micro_batches_ == 1 ? Accumulation::kWrite : Accumulation::kAdd;
  }
  GradientSpans gradients() const override { return gradients_; }
  float loss_scale() const override { return kept_->loss_scaling().scale(); }
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override;
  // Also OutOfRange, on all ranks: clipping by global norm found that the gradient's is not finite.
  // Scaled gradients are summed as they are, and the sums, which are the same bits on every rank,
  // decide whether the step is left out.
  absl::Status EndStep() override;
  // Rank r writes the files of partitions p with p mod W = r; all ranks return all files. In a
  // hybrid job the servers' files come first, and the workers', which hold the dense tensors, after
  // them: as many again.
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override;
  // A barrier.
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override;
  const LossScaler* loss_scaler() const override { return kept_->loss_scaling().scaler(); }
  StrategyCounters counters() const override;

  const ShardState& shard_state() const { return kept_->state(); }

 private:
  DataParallelStrategy(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                       const DataParallelOptions& options,
                       const DataParallelDependencies& dependencies,
                       std::unique_ptr<KeptShard> kept);

  ShardState& own() { return kept_->state(); }
  // Everything of a step but the last word: the sums over all ranks, and their clipping.
  absl::StatusOr<GradientSums> CollectSums();
  absl::StatusOr<double> CloseServers(const GradientSums& sums);
  void CountTraffic(uint64_t& sent, uint64_t& received);

  const DataParallelOptions options_;
  const Clock& clock_;
  const GradientReducerOptions reducing_;
  const bool clips_by_norm_;
  const std::unique_ptr<KeptShard> kept_;
  // Of its replica.
  RoundedCopies copies_;
  const std::vector<GradientBucket> plan_;
  // Hybrid jobs' sparse tables; null otherwise.
  std::unique_ptr<ParameterServerStrategy> servers_;

  // By sparse table of the replica: this rank's rows, and all ranks'.
  std::vector<RowSum> rows_;
  std::vector<RowSum> row_sums_;
  RowExchange row_exchange_;
  // Of the step, those that BeforeBackward has seen; and the last one's position.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  uint64_t examples_ = 0;
  // What the servers' part of the step's end needs of this one's.
  const GradientSums* closing_ = nullptr;

  StrategyCounters counters_;
  // Where counting stood.
  CollectiveTraffic traffic_;

  std::unique_ptr<Communicator> communicator_;
  // After the communicator: its memory goes before it.
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<absl::Span<float>> gradients_;
  std::vector<absl::Span<float>> sums_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_DATA_PARALLEL_STRATEGY_H_
