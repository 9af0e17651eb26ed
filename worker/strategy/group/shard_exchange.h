#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARD_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARD_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/kernels/accumulation.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/bucket_plan.h"
#include "common/partition/stage_holding.h"
#include "common/step/action.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/context_group.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/parallel/communicator_context_group.h"
#include "worker/parallel/communicator_counting_group.h"
#include "worker/parallel/communicator_expert_group.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/gradients/gradient_reducer.h"
#include "worker/strategy/group/gradients/gradient_scatterer.h"
#include "worker/strategy/group/gradients/tensor_ranks.h"
#include "worker/strategy/group/gradients/tied_sums.h"
#include "worker/strategy/group/gradients/weight_gatherer.h"
#include "worker/strategy/group/shard_place.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/shard_state.h"

namespace muster {

struct ShardExchangeOptions {
  // Says how ranks hold weights and gradients; absent: whole, and all-reduced by `plan`.
  StageHolding holding;
  std::vector<GradientBucket> plan;
  // Memory for units that stay gathered (KeptGatheredBytes).
  uint64_t kept_bytes = 0;
  // True if tensor ranks compute different tokens.
  bool divides_tokens = false;
  // The groups' own.
  ChoicesCounted choices = ChoicesCounted::kByDataRank;
  // The type in which gradients travel, the order of sums, and the time limit of each call.
  GradientReducerOptions reducing;
};

// Moves a rank's weights and gradients between ranks while a step computes, in one group and
// in the memory of one place. All-reduces the gradients of whole replicas, or gathers weights and
// scatters gradients; before that sums what tensor ranks share, and after it what two stages have
// in common. The hooks are Strategy's. Used by one thread.
class ShardExchange {
 public:
  // Creates the exchange; a collective call of all ranks. `groups`, `place` and `state` outlive it;
  // the state's shard is filled. Adds the time in which hooks are blocked to `exposed_seconds`.
  // Errors are the communicators'.
  static absl::StatusOr<std::unique_ptr<ShardExchange>> Create(
      RankGroups& groups, ShardPlace& place, const ShardState& state,
      const ShardExchangeOptions& options, const Clock& clock, double& exposed_seconds);
  // Waits for gathers that the last step started, because other ranks may still be in that step.
  // Other calls that are under way end in Abort, on all ranks. Moves weights back to the place.
  ~ShardExchange();

  // Returns the ranks that compute the model together with this one; null: it is alone.
  TensorRanks* tensor_ranks() const { return tensor_ranks_.get(); }
  // Returns the ranks that share out sequences with this one; null: it has whole sequences.
  ContextGroup* context_group() const { return context_group_.get(); }
  // Returns the ranks that share out experts with this one; null: it has all experts.
  ExpertGroup* expert_group() const { return expert_group_.get(); }
  // Returns the data ranks that count choices of experts together with this one; null: it alone.
  CountingGroup* counting_group() const { return counting_group_.get(); }
  ModelParameters parameters() const { return copies_ == nullptr ? held_ : copies_->parameters(); }
  GradientSpans gradients() const {
    return scatterer_ != nullptr ? scatterer_->gradients() : GradientSpans(gradients_);
  }

  // Begins a step. Every step gathers the same, whatever was evaluated before: where weights are in
  // flight, the traffic of its own gathers is what comes after `counted`.
  absl::Status BeginStep(CollectiveTraffic& counted);
  absl::Status Acquire(int unit, Direction direction);
  void BeforeBackward(SeriesPosition position);
  Accumulation GradientStore() const;
  absl::Status GradientReady(int unit);
  // Waits until all sums are complete.
  absl::Status Finish();
  // Returns this rank's sums: slices by part, empty for replicas of a device; and by tensor.
  absl::Span<const absl::Span<float>> sums() const { return sums_; }
  absl::Span<const absl::Span<float>> tensor_sums() const { return tensor_sums_; }
  // Returns whether the sums of a step of several micro-batches lay before the model as a whole.
  ShardPlace::Check sums_seen() const;

  // Forgets gathered weights, which are about to change, and waits until none is under way.
  void Outdate();
  // Starts to gather all units, in order, if they are held whole.
  void GatherAll();
  // Waits for these.
  absl::Status AwaitAll();
  // Gathers until all memory of weights has some.
  absl::Status GatherSome();

 private:
  ShardExchange(RankGroups& groups, ShardPlace& place, const ShardState& state,
                const ShardExchangeOptions& options, const Clock& clock, double& exposed_seconds);

  bool in_flight() const { return options_.holding.weights == UnitPlaces::Holding::kInFlight; }
  bool whole() const { return options_.holding.weights == UnitPlaces::Holding::kWhole; }

  // Make what moves gradients and weights; collective calls.
  absl::Status MakeTensorRanks();
  absl::Status MakeReplica();
  absl::Status MakeSlices();
  // Moves f32 weights to where they are gathered, if they are held whole, so that there is no
  // second copy of them.
  void PlaceWeights();

  RankGroups& groups_;
  ShardPlace& place_;
  const ShardState& state_;
  // All tensors, and those that are trained.
  const ShardedTensors sharded_;
  const ShardedTensors trained_;
  ShardExchangeOptions options_;
  // The number of units, without those behind the last unit that has tensors.
  const int units_;
  const Clock& clock_;
  double& exposed_seconds_;

  // Null unless there are several.
  std::unique_ptr<TensorRanks> tensor_ranks_;
  std::unique_ptr<CommunicatorContextGroup> context_group_;
  std::unique_ptr<CommunicatorExpertGroup> expert_group_;
  std::unique_ptr<CommunicatorCountingGroup> counting_group_;
  // Null unless another stage has some of this rank's tensors, too.
  std::unique_ptr<TiedSums> tied_sums_;
  // Without a ZeRO stage there is the reducer alone, or nothing for a rank alone on a device; with
  // one the other two.
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<WeightGatherer> gatherer_;
  std::unique_ptr<GradientScatterer> scatterer_;
  // The weights that are held, and 16-bit copies of f32 weights.
  ModelParameters held_;
  std::unique_ptr<LowPrecisionCopies> copies_;
  // A replica's gradients, by tensor.
  std::vector<absl::Span<float>> gradients_;
  std::vector<absl::Span<float>> sums_;
  std::vector<absl::Span<float>> tensor_sums_;
  // True if BeginStep zeroes a replica's gradients; and whether they were written since.
  bool zeroes_ = false;
  bool written_ = true;
  // The number of the step's micro-batches so far, and the last one's position.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARD_EXCHANGE_H_
