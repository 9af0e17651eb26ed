#ifndef MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_
#define MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mesh/recovery_plan.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/training_state.h"

namespace muster {

// A replica of a job's parameters, or a shard of one, that is trained together with other ranks, in
// one group of ranks after another: a group ends when a rank is lost, and the replica goes on in
// the next. Used by one thread.
class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;

  // Returns a fingerprint of the plan by which gradients are summed, which all ranks must share.
  virtual uint64_t bucket_plan_fingerprint() const = 0;

  // Returns the number of steps that the replica has seen; absent: there is no usable replica yet.
  virtual absl::optional<uint64_t> replica_clock() const = 0;

  // Returns what the rank brings to the next group. Its clock is replica_clock().
  virtual RankHolding holding() const = 0;

  // Joins a new group: a collective call of all its ranks, with their communicator of host memory.
  // With one shard, the replica of rank `source` becomes every rank's. With several, a source says
  // that every shard is among what the ranks hold, and all go on from the most advanced clock
  // (PlanRecovery). Without a source, every rank starts from the order's checkpoint or from initial
  // values, which replicas take from one of them. Called before Start, after a failed collective,
  // and between steps when the group changes. Leaves the former group first. Errors: the
  // communicator's or the storage's.
  virtual absl::Status Join(std::unique_ptr<Communicator> communicator,
                            absl::optional<int> source) = 0;

  // Joins a group as far as every rank has what is its own, and has the ranks that are not in
  // `leaving` take copies of what those alone have; then leaves the group. So the next group,
  // without the leaving ranks, has everything. A collective call of all ranks. `source` as for
  // Join. Errors: the communicator's.
  virtual absl::Status HandOver(std::unique_ptr<Communicator> communicator,
                                absl::optional<int> source, absl::Span<const int> leaving) = 0;

  // Forgets what this rank has, so that it joins the next group like a new one. To be called, while
  // no group is joined, after a group without this rank, which may have made the same steps with
  // other sums.
  virtual void Forget() = 0;

  // Gives back the communicator and all memory allocated from it. Waits for gathers that the last
  // step started, because other ranks may still be in that step. Calls of a step that was given up
  // end in Abort.
  virtual void Leave() = 0;

  // Returns the records of this rank's calls, one for each of its groups: all ranks first, then the
  // shard group and the replicas if these are other groups, then the shard group's rows if they are
  // divided. Empty when no group is joined. The records live until the group is left.
  virtual std::vector<const FlightRecorder*> recorders() const = 0;

  // Returns the same object's training state. To be called between steps.
  virtual TrainingState& state() = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_
