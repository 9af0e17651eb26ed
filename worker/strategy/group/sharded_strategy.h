#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/tensor_group.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/exchange/matrix_exchange.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/exchange/row_exchange.h"
#include "worker/strategy/group/exchange/step_agreement.h"
#include "worker/strategy/group/group_cuts.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/recovery/shard_recovery.h"
#include "worker/strategy/group/recovery/step_outcome.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/group/shard_exchange.h"
#include "worker/strategy/group/shard_place.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

struct ShardedOptions {
  // The timeout of each collective call of a step, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // Options of the half that is on servers; only for hybrid jobs.
  ParameterServerStrategy::Options servers;
};

struct ShardedDependencies {
  // The storage and the clock. Both outlive the strategy.
  CheckpointStorage* storage = nullptr;
  const Clock* clock = nullptr;
  // The folder for optimizer state, if the job offloads it.
  std::string offload_folder;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  // The connections to the servers; only for hybrid jobs.
  ShardRouterDependencies routing;
  // Makes the place where the shard is stepped. Null: the host's memory.
  std::function<absl::StatusOr<std::unique_ptr<ShardPlace>>(KeptShard& kept)> make_place;
};

// Data parallelism without servers: the ranks of a shard group divide the optimizer among them and,
// by stage, sums of gradients and weights (Rajbhandari, Rasley, Ruwase, He, "ZeRO", 2020). Rank r
// has shard r mod S of group r / S; ranks with the same shard in different groups are replicas of
// one another. Stage 0 is plain data parallelism: S = 1, so every rank has a full replica.
//
//            weights                      gradients
//   stage 0  the shard's own: all         all-reduced, as units are ready in the last micro-batch
//   stage 1  gathered after each step     whole; scattered as units are ready in the last one
//   stage 2  gathered after each step     in flight; scattered in every micro-batch
//   stage 3  in flight; gathered before   in flight; scattered in every micro-batch
//            forward and before backward
//
// Units in flight share two places in memory (UnitPlaces), so that the next one can travel while
// one is in use. Under stage 3 a job may keep further units gathered: these are gathered once a
// step.
//
//   Join              all ranks take over one replica, or start from the order's checkpoint
//   Acquire(u)        makes the unit's 16-bit copies (stage 0), or waits until it is gathered;
//                     under stage 3 starts to gather it, unless it is there, and then the next one.
//                     Before backward waits until the memory of its gradients is free
//   GradientReady(u)  starts to sum what is complete with unit u, while backward goes on
//   EndStep           waits for all sums, of rows, too, and with redundancy sends those of the
//                     slice to the rank that keeps a copy; makes the one exchange of all the job's
//                     ranks (step_agreement.h); under Muon brings divided matrices together
//                     (matrix_exchange.h); only when all of that succeeded steps the shard;
//                     then starts to gather all units (stages 1 and 2), which travel beside what
//                     follows
//
// The shard is stepped in the host's memory, or on a device (shard_place.h). There weights,
// gradients and moments never leave the device while a group trains. The host has a copy (12 bytes
// for each parameter of the shard) only for what is not a step: without a group, where it is what
// the next one restores or, with one shard, takes over from another rank or sends to others, and in
// Cut. Checkpoints have the common form, so that a job goes on from them anywhere, with any number
// of ranks and any stage. Hooks only queue a step's work; EndStep waits for the device. Norms are
// exchanged as one square for each rank, and with one shard in all as none, because every rank has
// all sums. Ranks on devices keep neither copies nor sums, so a rank that is a step behind takes
// its shard from a replica, as a new one does.
//
// Every rank makes the same calls in the same order, so all run the same number of micro-batches
// and, under stage 3, of evaluation passes, if need be without examples.
//
// Where there are several tensor ranks, each has its share of the tensors, which is divided in this
// way among the ranks with the same tensor rank (rank_groups.h). Gradients of elements that tensor
// ranks share are summed over these before anything else reads them (tensor_ranks.h). So it is
// with the stages of a pipeline, each of which has its units' tensors; gradients of tensors that
// two stages have are summed over both when the step ends (tied_sums.h).
//
// Rows of sparse tables are either divided among the ranks of a shard group, whatever the stage
// (row_exchange.h), or on servers, as the job's update says. In a hybrid job the servers' half has
// only the sparse tables, and ends its clock together with this one.
//
// A hook may fail with Unavailable, DeadlineExceeded or Aborted from a collective. The shard is
// then as it was before the step or, if this rank's part had succeeded already, after it:
// replica_clock() says which. Other ranks differ by at most one step. Join with another
// communicator brings the ranks together again in the same process, and the trainer repeats from
// the clock that Start returns. With several shards or tensor ranks that takes a replica or a copy
// of each lost rank's shard (shard_recovery.h); without one, the job returns to a cut. So does a
// hybrid job, whose servers may be ahead. With JobSpec.min_workers a group may have other ranks
// than the one before: then a rank's shard is the one of its rank, and the ranks divide the
// parameters anew. Of tensor ranks these are whole data ranks.
//
// In BSP with `deterministic`, stages 0 and 1 equal parameter servers bit for bit, and with one
// micro-batch so do stages 2 and 3: all sum by slot, take norms cell by cell, and divide once. With
// more micro-batches, stages 2 and 3 equal each other bit for bit, but sum over ranks first. All
// this holds for one shard group. Several groups each sum their own ranks' gradients before the
// groups' sums are added up, which rounds otherwise.
class ShardedStrategy final : public Strategy, public ReplicaGroup {
 public:
  // Creates the strategy. `schema` is the job's; the job's spec says stage and shard groups
  // (common/mesh/job_mesh.h). InvalidArgument: the schema is not valid. Otherwise errors are
  // KeptShard::Create's.
  static absl::StatusOr<std::unique_ptr<ShardedStrategy>> Create(const v1::TaskOrder& order,
                                                                 const v1::TablesSchema& schema,
                                                                 const ShardedOptions& options,
                                                                 ShardedDependencies dependencies);

  ~ShardedStrategy() override;

  // Returns a fingerprint of what is summed in which calls, and of how all the job's ranks divide
  // it.
  uint64_t bucket_plan_fingerprint() const override { return fingerprint_; }
  absl::optional<uint64_t> replica_clock() const override { return kept_->clock(); }
  RankHolding holding() const override { return recovery_.holding(); }
  // FailedPrecondition: the rank's shard is not its slot's, or a shard group is not whole.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  absl::Status HandOver(std::unique_ptr<Communicator> communicator, absl::optional<int> source,
                        absl::Span<const int> leaving) override;
  void Forget() override;
  void Leave() override;
  std::vector<const FlightRecorder*> recorders() const override;
  // Returns the groups of ranks; null when none is joined.
  RankGroups* groups() { return groups_.get(); }
  // Returns the communicator of all ranks; null when no group is joined.
  const Communicator* communicator() const {
    return groups_ == nullptr ? nullptr : &groups_->world();
  }
  TrainingState& state() override { return *this; }
  Strategy& strategy() { return *this; }
  // Returns the ranks that compute the model together with this one; null when there are none or no
  // group is joined. Lives until Leave.
  TensorGroup* tensor_group() {
    TensorRanks* const peers = joined() ? exchange_->tensor_ranks() : nullptr;
    return peers == nullptr ? nullptr : &peers->group();
  }
  // Returns the ranks that share out sequences with this one; null when there are none or no group
  // is joined. Lives until Leave.
  ContextGroup* context_group() { return joined() ? exchange_->context_group() : nullptr; }
  // Returns the ranks that share out experts with this one; null when there are none or no group is
  // joined. Lives until Leave.
  ExpertGroup* expert_group() { return joined() ? exchange_->expert_group() : nullptr; }
  // Returns the data ranks that count choices of experts together with this one; null when there
  // are none or no group is joined. Lives until Leave.
  CountingGroup* counting_group() { return joined() ? exchange_->counting_group() : nullptr; }
  // Returns the communicator of the stages of a pipeline, for messages between these; null when
  // there is one stage or no group is joined. Lives until Leave.
  Communicator* stage_group() {
    return groups_ == nullptr ? nullptr : groups_->Others(Axis::kPipeline);
  }

  // Returns the clock to go on from; to be called after each Join. Aborted: a hybrid job's servers
  // are at another clock than the shard, so the job must return to a cut.
  absl::StatusOr<uint64_t> Start() override;
  void SetRateFactor(double factor) override;
  // Begins a step. FailedPrecondition: no group was joined, or the clock is not the shard's.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override {
    return exchange_->Acquire(unit, direction);
  }
  void Release(int unit, Direction direction) override {}
  // Returns the parameters. Under stages 1 to 3, tensors that are computed with in 16 bits have no
  // f32 values.
  ModelParameters parameters() const override { return exchange_->parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override;
  absl::Status LookUp(MicroBatch& micro_batch) override;
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override { return exchange_->GradientStore(); }
  GradientSpans gradients() const override { return exchange_->gradients(); }
  float loss_scale() const override { return kept_->loss_scaling().scale(); }
  absl::Status GradientReady(int unit) override { return exchange_->GradientReady(unit); }
  absl::Status PushRows(MicroBatch& micro_batch) override;
  // Ends the step. Also returns OutOfRange, on all ranks: the sum of a gradient is not finite or,
  // with clipping by global norm, its norm. Scaled gradients are summed as they are; the sums of
  // all shards decide whether the step is left out.
  absl::Status EndStep() override;
  // Each rank writes its files from a copy while it trains (group_cuts.h).
  BackgroundCuts& background_cuts() override { return *cuts_; }
  // Returns all files on all ranks (KeptShard::Cut), once the cut under way has ended. In a hybrid
  // job the servers' files come first, then the workers', which hold the dense tensors.
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override;
  // Ends the cut; a barrier of all ranks.
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override;
  const LossScaler* loss_scaler() const override { return kept_->loss_scaling().scaler(); }
  StrategyCounters counters() const override;

  const ShardState& shard_state() const { return kept_->state(); }

 private:
  ShardedStrategy(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                  const ShardedOptions& options, const ShardedDependencies& dependencies,
                  std::unique_ptr<KeptShard> kept);

  // Makes the place and what follows from it.
  absl::Status MakePlace(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                         const ShardedDependencies& dependencies);
  ShardState& own() { return kept_->state(); }
  const ShardState& own() const { return kept_->state(); }
  bool joined() const { return exchange_ != nullptr; }
  // Returns whether ranks hold different shards, in this group or in another one, and go on after
  // a loss.
  bool recovers() const { return divides_anew_ || own().shard().mesh.world_size() > 1; }

  // Returns a wait whose time is counted as exposed.
  WaitForWork MeasuredWait();
  std::unique_ptr<RowExchange> MakeRows();
  // Leaves the former group, joins the next one, and gives every rank its shard.
  absl::Status Gather(std::unique_ptr<Communicator> communicator, absl::optional<int> source);
  // Gives every rank its shard, and this one `shard`; a collective call.
  absl::Status FillShards(absl::optional<int> source, const MeshPosition& shard);
  StepAgreement::Options AgreementOptions() const;
  // Gives up the group with all that belongs to it.
  void EndGroup();
  // Waits until the sums are complete, and exchanges what ranks know of the step.
  absl::StatusOr<StepTotal> CollectSums();
  absl::StatusOr<double> CloseServers(const GradientSums& sums);
  std::string NameOfOverflow(const StepOutcome& outcome) const;
  // Brings divided matrices of the step together, if there are any. Nothing is stepped yet.
  absl::Status OrthogonaliseMatrices(const StepOutcome& outcome);
  // Makes a step of which this rank has the sums, in its shard and its copies.
  absl::Status MakeStep(const StepOutcome& outcome);
  // Returns the traffic within layers: among tensor ranks, context ranks, ranks that share out
  // experts, and ranks that count choices together.
  CollectiveTraffic LayerTraffic() const;
  // Counts the agreement's traffic, and what else moved beside weights and gradients.
  void CountAgreement();
  // Counts the traffic since the last count.
  void CountTraffic(uint64_t& sent, uint64_t& received);
  // Makes calls that belong to no step, and leaves their traffic out of the next count. Calls
  // under way belong to the next step, and are waited for.
  absl::Status RunUncounted(absl::FunctionRef<absl::Status()> calls);

  const ShardedOptions options_;
  const Clock& clock_;
  const bool divides_anew_;
  const std::unique_ptr<KeptShard> kept_;
  ShardRecovery recovery_;
  // These are const after Create.
  std::unique_ptr<ShardPlace> place_;
  ShardExchangeOptions exchanging_;
  uint64_t fingerprint_ = 0;
  // The strategy of a hybrid job's sparse tables; null otherwise.
  std::unique_ptr<ParameterServerStrategy> servers_;
  // Const after Create.
  std::unique_ptr<GroupCuts> cuts_;
  const bool clips_by_norm_;
  // Of the step under way.
  double rate_factor_ = 1;

  std::unique_ptr<RowExchange> rows_;
  // The sums that the servers' half needs while the step ends.
  const GradientSums* closing_ = nullptr;

  StrategyCounters counters_;
  // The traffic at the last count, and that among tensor ranks, among stages and for the agreement
  // at the step's beginning.
  CollectiveTraffic counted_;
  CollectiveTraffic tensor_counted_;
  CollectiveTraffic stage_counted_;
  CollectiveTraffic agreement_counted_;

  // The groups of ranks; null: no group was joined.
  std::unique_ptr<RankGroups> groups_;
  // These come after the groups, so that they are destroyed before the groups' memory.
  std::unique_ptr<ShardExchange> exchange_;
  // Null unless ranks divide matrices that move as a whole.
  std::unique_ptr<MatrixExchange> matrices_;
  std::unique_ptr<StepAgreement> agreement_;
  // The step's sums of the shard, by part. Without a group: those that are kept.
  std::vector<absl::Span<float>> sums_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARDED_STRATEGY_H_
