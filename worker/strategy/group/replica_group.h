#ifndef MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_
#define MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/training_state.h"

namespace muster {

// A replica of a job's parameters, or a shard of one, that is trained with those of other ranks, in
// one group after another: groups end when a rank is lost, and the replica goes on in the next.
// Used by one thread.
class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;

  // Of the plan by which gradients are summed, which all ranks must share.
  virtual uint64_t bucket_plan_fingerprint() const = 0;

  // Steps that the replica has seen; absent: there is none yet, or it is of no use.
  virtual absl::optional<uint64_t> replica_clock() const = 0;

  // A collective call of all ranks of a new group, whose communicator of host memory this is: takes
  // it into use, and rank `source`'s replica over; without a source, and always with several
  // shards, every rank starts from the order's checkpoint or from initial values, replicas from
  // those of one. To be called before Start, and again after a collective failed, or between steps
  // when the group changes. Leaves the former group first. Errors: the communicator's, or the
  // storage's.
  virtual absl::Status Join(std::unique_ptr<Communicator> communicator,
                            absl::optional<int> source) = 0;

  // Gives the communicator back, and all that was allocated from it. Calls under way end in Abort.
  virtual void Leave() = 0;

  // Returns the records of this rank's calls, one for each group of ranks in which it makes some:
  // of all ranks first, then of a shard group and of replicas, if they are others. Empty when no
  // group is joined. They live until the group is left.
  virtual std::vector<const FlightRecorder*> recorders() const = 0;

  // The same object, between steps.
  virtual TrainingState& state() = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_REPLICA_GROUP_H_
