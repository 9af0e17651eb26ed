#ifndef MUSTER_WORKER_STRATEGY_GROUP_SERVED_GROUP_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SERVED_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/context_group.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/expert_group.h"
#include "worker/parallel/communicator_context_group.h"
#include "worker/parallel/communicator_counting_group.h"
#include "worker/parallel/communicator_expert_group.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/gradients/tensor_ranks.h"
#include "worker/strategy/group/gradients/tied_sums.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/servers/data_rank_peers.h"
#include "worker/strategy/servers/parameter_server_strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// A slot of a job whose parameters are on servers, and which several ranks compute together, as
// tensor ranks, context ranks, stages or expert ranks: the slot's strategy, and its groups with
// these. The slot holds nothing that others lack, so any group of ranks will do. In each it opens
// the tables again, as a task does that takes a slot over, and begins where the ranks begin with
// which it computes: those of its data rank, of all data ranks that share out experts with it, or
// all ranks, if they count choices together.
//
// A rank that waits for servers makes no call that could fail because the group has ended. So who
// hears of the end (the coordinator tells the task) ends these waits (EndWaits).
//
// Pushes and pulls do not use registered memory: a server may read it until the clock is complete,
// and in the next group this task uses the memory for something else.
class ServedGroup final : public ReplicaGroup, private DataRankPeers {
 public:
  struct Options {
    // The timeout of each collective call, in which ranks may have to wait for slower ones.
    absl::Duration timeout = absl::Minutes(10);
    ParameterServerStrategy::Options servers;
  };

  // The schema, the clock of `routing`, and what the options name outlive this.
  ServedGroup(const v1::TaskOrder& order, const v1::TablesSchema& schema, const Options& options,
              ShardRouterDependencies routing);
  ~ServedGroup() override;

  // Returns the same for all ranks: what they push is laid out by the schema, which they compare.
  uint64_t bucket_plan_fingerprint() const override { return 0; }
  // Returns how many clocks the slot is known to have closed.
  absl::optional<uint64_t> replica_clock() const override { return clock_; }
  RankHolding holding() const override { return {.clock = clock_}; }
  // Needs no source. Errors are the communicator's and ParameterServerStrategy::Create's.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  // Servers have everything.
  absl::Status HandOver(std::unique_ptr<Communicator>, absl::optional<int>,
                        absl::Span<const int>) override {
    return absl::OkStatus();
  }
  void Forget() override {}
  void Leave() override;
  std::vector<const FlightRecorder*> recorders() const override;
  TrainingState& state() override { return *strategy_; }

  // Returns the strategy. REQUIRES: a group is joined. It lives until Leave.
  Strategy& strategy() { return *strategy_; }
  // Return the ranks that divide the slot's layers with it, those that share out its sequences,
  // those that share out experts, those that count choices with it, and the communicator of the
  // stages; null if it is alone there. REQUIRES and lifetime as above.
  TensorGroup* tensor_group() {
    return tensor_ranks_ == nullptr ? nullptr : &tensor_ranks_->group();
  }
  ContextGroup* context_group() { return context_group_.get(); }
  ExpertGroup* expert_group() { return expert_group_.get(); }
  CountingGroup* counting_group() { return counting_group_.get(); }
  Communicator* stage_group() { return groups_->Others(Axis::kPipeline); }

  // Ends the strategy's waits for servers, now and until Leave; a no-op if no group is joined. For
  // any thread.
  void EndWaits(absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<uint64_t> Begin(uint64_t closed) override;
  absl::StatusOr<uint64_t> Least(absl::string_view what, uint64_t value) override;
  absl::Status SumShared(int unit, GradientSpans gradients) override;
  absl::Status AddTied(int unit, GradientSpans gradients) override;
  absl::Status AwaitLent() override;
  void AddTo(StrategyCounters& counters) const override;

  // Returns what the rank has moved in the context group, the expert group, the tensor group and
  // groups of ranks that have the same tensors.
  CollectiveTraffic LayerTraffic() const;

  // Expects state on servers once this task has seen it there.
  v1::TaskOrder order_;
  const v1::TablesSchema& schema_;
  const Options options_;
  const ShardRouterDependencies routing_;

  absl::optional<uint64_t> clock_;
  // Time in calls of the group.
  double exposed_seconds_ = 0;
  // Traffic before Begin, and by which ranks have agreed on something since: it is none of the
  // model's.
  CollectiveTraffic layers_uncounted_;
  CollectiveTraffic stages_formed_;
  // Null unless a group is joined, and where they are not needed.
  std::unique_ptr<RankGroups> groups_;
  std::unique_ptr<TensorRanks> tensor_ranks_;
  std::unique_ptr<CommunicatorContextGroup> context_group_;
  std::unique_ptr<CommunicatorExpertGroup> expert_group_;
  std::unique_ptr<CommunicatorCountingGroup> counting_group_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
  // May have lent the strategy's gradients, so it ends before.
  std::unique_ptr<TiedSums> tied_sums_;
  absl::Mutex mutex_;
  // The strategy, as long as its waits may be ended.
  ParameterServerStrategy* waiting_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SERVED_GROUP_H_
