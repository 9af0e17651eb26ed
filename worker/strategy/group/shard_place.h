#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARD_PLACE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARD_PLACE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/bucket_plan.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/layer.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/exchange/step_agreement.h"
#include "worker/strategy/group/gradients/slice_ops.h"
#include "worker/strategy/group/recovery/step_outcome.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// A rank's shard lies here, and is stepped, while it trains in one group after another: the host's
// memory (host_shard.h) or a device (worker/device/weights/device_shard.h). Made for one KeptShard,
// which outlives it. Used by one thread.
//
//   for each group: Enter; replica, or sums and PlaceWeights; Fill; steps; Stop; Leave
//   for each step: EndPasses; Unscale; Measure; Decide; Apply
class ShardPlace {
 public:
  // The memory of a rank that has all of its tensors (no ZeRO stage).
  struct Replica {
    // The flat space of gradients that PlanBuckets is about, which steps add to, and the gradients
    // by tensor. Both are empty if gradients are to lie in the memory of a communicator.
    absl::Span<float> space;
    GradientSpans gradients;
    ModelParameters parameters;
  };

  virtual ~ShardPlace() = default;

  // Returns whether this is the memory of KeptShard, in which processors make steps. If not, sums
  // are not kept, and the place is warmed up before the first step.
  virtual bool on_host() const = 0;

  // Returns the plan by which ranks sum the gradients of all these tensors. Errors are
  // DenseLayout's.
  virtual absl::StatusOr<std::vector<GradientBucket>> PlanBuckets(
      const DenseLayout& layout, absl::Span<const TensorSpec> tensors) const = 0;

  // Takes the memory of a group; a collective call. May replace communicators by others of its own
  // memory. Errors are those of the memory and of the communicators.
  virtual absl::Status Enter(RankGroups& groups) = 0;
  // Gives up what is queued, and waits for what is under way.
  virtual void Stop() = 0;
  // Gives the memory back, with all that is in it.
  virtual void Leave() = 0;

  // Returns the operations on the memory between Enter and Leave.
  virtual SliceOps& ops() = 0;
  // Makes a call of tensor ranks, or queues it in its place among the computation.
  virtual absl::Status MakeCall(Communicator& group, const CollectiveCall& call) = 0;
  // Starts messages of context ranks that go at one time, or one other call of theirs. Or queues
  // them in their place among the computation, and returns none.
  virtual std::vector<std::shared_ptr<Work>> StartCalls(Communicator& group,
                                                        absl::Span<const CollectiveCall> calls) = 0;

  // Does `exchange`, in which calls may be started that depend on what others tell this rank, in
  // its place among the computation, and again wherever that is recorded and done again.
  virtual void Exchange(std::function<void()> exchange) = 0;
  // Copies from the place's memory to the host's what has been computed and received by then. Only
  // within an exchange. Errors are also those of the calls.
  virtual absl::Status Read(const void* from, size_t bytes, void* to) = 0;

  virtual Replica replica() = 0;
  // Returns the memory for sums of slices that do not lie among the gradients; empty: the host's.
  virtual absl::Span<float> sums() = 0;
  // Moves slices of weights to `places`, by part; null places, or no places, mean memory of this.
  virtual void PlaceWeights(absl::Span<float* const> places) = 0;
  // Returns the slices of f32 weights, by part.
  virtual absl::Span<const absl::Span<const float>> slices() const = 0;
  // Returns the copies in 16 bits of what is held of these tensors; null: the place makes them.
  virtual std::unique_ptr<LowPrecisionCopies> MakeCopies(absl::Span<const TensorSpec> tensors,
                                                         const ModelParameters& held) = 0;

  // Takes weights and optimizer state over from the host, if they are not to stay there, and gets
  // ready to step them by these sums, of which slices are by part.
  virtual absl::Status Fill(absl::Span<const absl::Span<float>> sums) = 0;
  // Brings weights and optimizer state to the host, if they are not there. After an error there are
  // none.
  virtual absl::Status TakeBack() = 0;
  // Frees what TakeBack has brought to the host, where the place has it still.
  virtual void HandOver() = 0;

  // Queues zeroing of a replica's gradients. REQUIRES: the replica has space for them.
  virtual void ZeroGradients() = 0;
  // Returns the status of what is queued.
  virtual absl::Status status() const = 0;
  // Waits for the calls of tensor ranks in the passes, which count only if all have ended well.
  virtual absl::Status EndPasses() = 0;

  // Returns what ranks must exchange before they step, and the number of cells of a shard, named by
  // its position along kStateAxes, whose squared norms belong to that.
  virtual StepAgreement::Extent extent() const = 0;
  virtual size_t cells(int shard) const = 0;
  // Divides complete sums, by tensor, by the loss scale. Returns the number of the first one that
  // is not finite, where nobody else looks: unscaled sums are kSeen where they were computed.
  // -1: none.
  enum class Check { kSeen, kUnseen };
  virtual int Unscale(GradientSpans sums, Check check) = 0;
  // Returns the squared norms of this rank's cells of the sums, if there are `cells` to give.
  // Whatever it returns, the sums are complete.
  virtual absl::StatusOr<absl::Span<const double>> Measure(const GradientSums& sums,
                                                           size_t cells) = 0;
  // Decides from all ranks' sums how the step ends, alike on all ranks. A device moves weights
  // and optimizer state right away. OutOfRange: the norm is not finite, and cannot be left out.
  virtual absl::Status Decide(const GradientSums& sums, StepOutcome& outcome) = 0;
  // Makes the step, and counts it.
  virtual void Apply(const GradientSums& sums, const StepOutcome& outcome) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARD_PLACE_H_
