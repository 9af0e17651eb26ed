#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_

#include <cstddef>
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
#include "common/partition/stage_holding.h"
#include "common/partition/unit_places.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/rounded_copies.h"
#include "worker/strategy/group/bucket_plan.h"
#include "worker/strategy/group/gradient_reducer.h"
#include "worker/strategy/group/gradient_scatterer.h"
#include "worker/strategy/group/kept_shard.h"
#include "worker/strategy/group/rank_groups.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/group/step_exchange.h"
#include "worker/strategy/group/weight_gatherer.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

struct ShardedOptions {
  // Of each collective call of a step, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // Hybrid jobs: the half on servers.
  ParameterServerStrategy::Options servers;
};

struct ShardedDependencies {
  // Both outlive the strategy.
  CheckpointStorage* storage = nullptr;
  const Clock* clock = nullptr;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  // Hybrid jobs: the way to the servers.
  ShardRouterDependencies routing;
};

// Data parallelism without servers: the ranks of a shard group divide the optimizer among them and,
// by stage, sums of gradients and weights (Rajbhandari, Rasley, Ruwase, He, "ZeRO", 2020). Rank r
// has shard r mod S of group r / S; the ranks that have the same shard in different groups are
// replicas of one another. Stage 0 is plain data parallelism: S = 1, so every rank has a replica of
// everything.
//
//            weights                      gradients
//   stage 0  the shard's own: all         all-reduced, as units are ready in the last micro-batch
//   stage 1  gathered after each step     whole; scattered as units are ready in the last one
//   stage 2  gathered after each step     in flight; scattered in every micro-batch
//   stage 3  in flight; gathered before   in flight; scattered in every micro-batch
//            forward and before backward
//
// Units in flight share two places in memory (UnitPlaces), so that the next one can travel while
// one is in use.
//
//   Join              all ranks take over one replica, or start from the order's checkpoint
//   Acquire(u)        makes the unit's 16-bit copies (stage 0), or waits until it is gathered;
//                     under stage 3 starts to gather it, unless it is there, and then the next one.
//                     Before backward waits until the memory of its gradients is free
//   GradientReady(u)  starts to sum what is complete with unit u, while backward goes on
//   EndStep           waits for all sums; makes the one exchange of all the job's ranks
//                     (step_exchange.h); only when all of that succeeded steps the shard; then
//                     starts to gather all units (stages 1 and 2), which travel beside what follows
//
// Every rank makes the same calls in the same order, so all run the same number of micro-batches
// and, under stage 3, of evaluation passes, if need be without examples.
//
// Sparse tables, as the job's update says, are part of what every rank has (rows are gathered) or
// on servers (hybrid: the servers' half has its tables alone, and ends its clock with this one).
//
// After a hook failed with Unavailable, DeadlineExceeded or Aborted from a collective, the shard is
// as it was before the step or, if this rank's part had succeeded already, after it:
// replica_clock() says which; other ranks differ by at most one. Under stage 0 Join, with another
// communicator, brings them together again, in the same process, and the trainer repeats from what
// Start returns. With several shards, nobody has what a lost rank had, and the job returns to a
// cut; so does a hybrid job, whose servers may be ahead.
//
// In BSP with `deterministic`, stages 0 and 1 equal parameter servers bit for bit, and so do 2 and
// 3 with one micro-batch: all sum by slot, take norms cell by cell, and divide once. With more
// micro-batches stages 2 and 3, which are equal bit for bit, sum over ranks first. All that holds
// with one shard group: with several, each sums its ranks' gradients before the groups' sums are
// added up, which rounds otherwise.
class ShardedStrategy final : public Strategy, public ReplicaGroup {
 public:
  // `schema` is the job's; stage and shard groups are as its spec says (common/mesh/zero.h).
  // InvalidArgument: the schema is not valid.
  static absl::StatusOr<std::unique_ptr<ShardedStrategy>> Create(const v1::TaskOrder& order,
                                                                 const v1::TablesSchema& schema,
                                                                 const ShardedOptions& options,
                                                                 ShardedDependencies dependencies);

  ~ShardedStrategy() override;

  // Covers what is summed in which calls, and how it is divided.
  uint64_t bucket_plan_fingerprint() const override;
  absl::optional<uint64_t> replica_clock() const override { return kept_->clock(); }
  // With several shards there is no use for a source. FailedPrecondition: the rank has another
  // shard than its slot, or a shard group is not whole.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  void Leave() override;
  std::vector<const FlightRecorder*> recorders() const override {
    return groups_ == nullptr ? std::vector<const FlightRecorder*>() : groups_->recorders();
  }
  // Returns that of all ranks; null when no group is joined.
  const Communicator* communicator() const {
    return groups_ == nullptr ? nullptr : &groups_->world();
  }
  TrainingState& state() override { return *this; }

  // After each Join: the clock to go on from. Aborted: a hybrid job's servers are at another clock
  // than the shard; the job must return to a cut.
  absl::StatusOr<uint64_t> Start() override;
  // FailedPrecondition: no group was joined, or the clock is not the shard's.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override;
  void Release(int unit, Direction direction) override {}
  // Under stages 1 to 3 tensors that are computed with in 16 bits have no f32 values.
  ModelParameters parameters() const override { return copies_->parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override;
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override;
  GradientSpans gradients() const override;
  float loss_scale() const override { return kept_->loss_scaling().scale(); }
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override;
  // Also OutOfRange, on all ranks: the sum of a gradient, or with clipping by global norm its norm,
  // is not finite. Scaled gradients are summed as they are, and the sums of all shards decide
  // whether the step is left out.
  absl::Status EndStep() override;
  // All ranks return all files (KeptShard::Cut). In a hybrid job the servers' files come first, and
  // the workers', which hold the dense tensors, after them.
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override;
  // A barrier.
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override;
  const LossScaler* loss_scaler() const override { return kept_->loss_scaling().scaler(); }
  StrategyCounters counters() const override;

  const ShardState& shard_state() const { return kept_->state(); }

 private:
  ShardedStrategy(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                  const ShardedOptions& options, const ShardedDependencies& dependencies,
                  std::unique_ptr<KeptShard> kept);

  ShardState& own() { return kept_->state(); }
  bool joined() const { return reducer_ != nullptr || scatterer_ != nullptr; }
  bool in_flight() const { return holding_.weights == UnitPlaces::Holding::kInFlight; }

  // A collective call: makes what moves weights and gradients in the groups.
  absl::Status MakeExchanges();
  // Has the shard's f32 weights lie where they are gathered, if they are held whole, so that there
  // is no second copy of them.
  void PlaceWeights();
  // Starts to gather all units, in order, where they are held whole.
  void GatherAll();
  absl::Status AwaitAll();
  absl::Status AwaitWeights(int unit, Direction direction);
  // Waits until the sums are complete, and brings together what ranks know of the step.
  absl::StatusOr<StepTotal> CollectSums();
  absl::StatusOr<double> CloseServers(const GradientSums& sums);
  // Counts what was moved since the last count.
  void CountTraffic(uint64_t& sent, uint64_t& received);
  // Leaves out of the next count what was moved since `before`.
  void LeaveOut(const CollectiveTraffic& before);

  const ShardedOptions options_;
  const Clock& clock_;
  const uint32_t stage_;
  const StageHolding holding_;
  const GradientReducerOptions reducing_;
  const bool clips_by_norm_;
  const std::unique_ptr<KeptShard> kept_;
  // Number of units, those without tensors behind the last one left out.
  const int units_;
  // Of gradients that are all-reduced; empty if they are scattered.
  const std::vector<GradientBucket> plan_;
  // Hybrid jobs' sparse tables; null otherwise.
  std::unique_ptr<ParameterServerStrategy> servers_;

  // This rank's rows, by sparse table.
  std::vector<RowSum> rows_;
  StepExchange exchange_;
  // Of the step, those that BeforeBackward has seen; and the last one's position.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  uint64_t examples_ = 0;
  // What the servers' part of the step's end needs of this one's.
  const GradientSums* closing_ = nullptr;

  StrategyCounters counters_;
  // Where counting stood.
  CollectiveTraffic counted_;

  // Null: no group was joined.
  std::unique_ptr<RankGroups> groups_;
  // Cells that each rank gives for the norm; empty if none is needed of others.
  std::vector<size_t> cells_by_rank_;
  // After the groups, whose memory goes before them. With one shard there is the reducer alone,
  // with several the other two.
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<WeightGatherer> gatherer_;
  std::unique_ptr<GradientScatterer> scatterer_;
  // What the model reads: the shard's weights or the gathered ones, and 16-bit copies of f32 ones.
  std::unique_ptr<RoundedCopies> copies_;
  // The reducer's gradients, by tensor.
  std::vector<absl::Span<float>> gradients_;
  // The step's sums of the shard: by part, and by tensor.
  std::vector<absl::Span<float>> sums_;
  std::vector<absl::Span<float>> tensor_sums_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_
