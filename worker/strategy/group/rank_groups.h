#ifndef MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// The groups of ranks in which a rank makes collective calls. With W ranks and S shards, rank r has
// shard r mod S. Each S consecutive ranks, from a multiple of S on, are a shard group. The W / S
// ranks with the same shard are replicas. Used by one thread.
class RankGroups {
 public:
  // Creates the groups; a collective call of all ranks. FailedPrecondition: the rank does not have
  // this shard, or a shard group would not be whole. Otherwise errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Create(std::unique_ptr<Communicator> world,
                                                            ShardIndex shard);

  // Returns the communicator of all ranks.
  Communicator& world() { return *world_; }
  const Communicator& world() const { return *world_; }
  // Returns the shard group's communicator, which is world() if there is one group.
  Communicator& shard_group() { return shard_group_ == nullptr ? *world_ : *shard_group_; }
  // Returns the communicator of the ranks with this rank's shard. Null if no other rank has the
  // shard, and with one shard, which all ranks have.
  Communicator* replicas() { return replicas_.get(); }

  // Returns the traffic of the rank in all groups.
  CollectiveTraffic traffic() const;
  // Returns the records of the rank's calls in each group that has a communicator of its own.
  std::vector<const FlightRecorder*> recorders() const;

 private:
  explicit RankGroups(std::unique_ptr<Communicator> world);

  const std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> shard_group_;
  std::unique_ptr<Communicator> replicas_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_
