#ifndef MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// The groups of ranks in which a rank makes collective calls. With t tensor ranks, rank r is tensor
// rank r mod t of data rank r / t. The t ranks of a data rank are a tensor group, which computes
// one model together. The ranks with one tensor rank are a data group; with S shards, data rank d
// has shard d mod S of it. Each S consecutive ranks of a data group, from a multiple of S on, are a
// shard group, and those with the same shard are replicas.
//
// For example, with 8 ranks, t = 2 and S = 2, rank 5 is tensor rank 1 of data rank 2. Its tensor
// group is {4, 5}, its data group {1, 3, 5, 7}, its shard group {5, 7}, its replicas {1, 5}.
//
// Used by one thread.
class RankGroups {
 public:
  // Creates the groups; a collective call of all ranks. FailedPrecondition: the rank does not have
  // this shard, or a group would not be whole. Otherwise errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Create(std::unique_ptr<Communicator> world,
                                                            ShardIndex shard);

  // Returns the communicator of all ranks.
  Communicator& world() { return *world_; }
  const Communicator& world() const { return *world_; }
  // Returns the tensor group's communicator; null if this rank is alone in it.
  Communicator* tensor_group() { return tensor_group_.get(); }
  // Returns the data group's communicator, which may be of this rank alone.
  Communicator& data_group() { return data_group_ == nullptr ? *world_ : *data_group_; }
  // Returns the shard group's communicator. REQUIRES: several shards, or one data rank.
  Communicator& shard_group() { return shard_group_ == nullptr ? data_group() : *shard_group_; }
  // Returns the communicator of the ranks with this rank's shard; null if no other rank has it.
  Communicator* replicas();

  // Returns the traffic of the rank in all groups but the tensor group.
  CollectiveTraffic traffic() const;
  // Returns the records of the rank's calls in each group that has a communicator of its own.
  std::vector<const FlightRecorder*> recorders() const;

 private:
  RankGroups(std::unique_ptr<Communicator> world, const ShardIndex& shard);

  // Returns all groups' communicators but the tensor group's, some of them null.
  std::array<const Communicator*, 4> along_data() const {
    return {world_.get(), data_group_.get(), shard_group_.get(), replicas_.get()};
  }

  const std::unique_ptr<Communicator> world_;
  const int shards_;
  // Null where the group is a larger one, or is never asked for.
  std::unique_ptr<Communicator> tensor_group_;
  std::unique_ptr<Communicator> data_group_;
  std::unique_ptr<Communicator> shard_group_;
  std::unique_ptr<Communicator> replicas_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RANK_GROUPS_H_
