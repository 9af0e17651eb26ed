#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"

namespace muster {

// Makes the communicator of device memory that goes with one of host memory, of the same ranks;
// called by all of them. `host` may be used for other things before and after. Errors: the
// backend's.
using MakeDeviceCommunicator =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Communicator& host)>;

// The groups of the mesh in which a rank makes collective calls (common/mesh/mesh.h).
//
// For example, with 8 ranks of one stage, 2 tensor ranks and 2 shards, rank 5 is tensor rank 1 of
// data rank 2. Its tensor group is {4, 5}, its data group {1, 3, 5, 7}, its shard group {5, 7}, its
// replicas {1, 5}. With two stages and one shard it is tensor rank 1 of data rank 0 of stage 1: its
// tensor group is {4, 5}, its data group {5, 7}, its stage group {1, 5}.
//
// Used by one thread.
class RankGroups {
 public:
  // Creates the groups of a round whose ranks have shards by turns, this one's at this position
  // along kStateAxes; a collective call of all ranks. `tensors` are the rank's shares, which say
  // what stages have in common; with one stage they do not count. FailedPrecondition: the
  // rank does not have this shard, or a group would not be whole. Otherwise errors are the
  // communicator's.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Create(
      std::unique_ptr<Communicator> world, const MeshPosition& shard,
      absl::Span<const TensorSpec> tensors = {});

  // The groups along the data axis move these: a rank's gradients of all its tensors, or slices.
  enum class Moved { kWhole, kSlices };
  // Replaces the communicators that move weights, gradients and messages by ones of device memory;
  // a collective call of all ranks. That of all ranks stays as it is, and so does that of whole
  // gradients where a rank is alone. Slices lie in a communicator's memory even then.
  absl::Status MoveToDevices(Moved moved, const MakeDeviceCommunicator& make);

  const Mesh& mesh() const { return mesh_; }
  // Returns the communicator of all ranks.
  Communicator& world() { return *world_; }
  const Communicator& world() const { return *world_; }
  // Returns the tensor group's communicator; null if this rank is alone in it.
  Communicator* tensor_group() { return tensor_group_.get(); }
  // Returns the stage group's communicator, whose ranks are the stages, for messages between
  // these alone; null if there is one stage.
  Communicator* stage_group() { return stage_group_.get(); }
  // Returns the communicator of those ranks of the stage group that have some tensors in common;
  // null if this rank has none.
  Communicator* tied_group() { return tied_group_.get(); }
  // Returns the data group's communicator, which may be of this rank alone.
  Communicator& data_group() { return data_group_ == nullptr ? *world_ : *data_group_; }
  // Returns the shard group's communicator. REQUIRES: several shards, or one data rank.
  Communicator& shard_group() { return shard_group_ == nullptr ? data_group() : *shard_group_; }
  // Returns the communicator of the ranks with this rank's shard; null if no other rank has it.
  Communicator* replicas();

  // Returns the traffic of the rank in all groups along the data axis; and in the stage group
  // with the ranks that have tensors in common.
  CollectiveTraffic traffic() const;
  CollectiveTraffic stage_traffic() const;
  // Returns the records of the rank's calls in each group that has a communicator of its own.
  std::vector<const FlightRecorder*> recorders() const;

 private:
  RankGroups(std::unique_ptr<Communicator> world, const Mesh& mesh);

  // Returns the communicators that traffic() and stage_traffic() count, some of them null.
  std::array<const Communicator*, 4> along_data() const {
    return {world_.get(), data_group_.get(), shard_group_.get(), replicas_.get()};
  }
  std::array<const Communicator*, 2> along_stages() const {
    return {stage_group_.get(), tied_group_.get()};
  }

  const std::unique_ptr<Communicator> world_;
  const Mesh mesh_;
  // Communicators of host memory in whose place others are now.
  std::vector<std::unique_ptr<Communicator>> replaced_;
  // Null where the group is a larger one, or is never asked for.
  std::unique_ptr<Communicator> tensor_group_;
  std::unique_ptr<Communicator> stage_group_;
  std::unique_ptr<Communicator> tied_group_;
  std::unique_ptr<Communicator> data_group_;
  std::unique_ptr<Communicator> shard_group_;
  std::unique_ptr<Communicator> replicas_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_
