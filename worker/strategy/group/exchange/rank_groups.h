#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/job_mesh.h"
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
  // what stages have in common; with one stage they do not count. `context_copies`
  // neighbouring context ranks have the same shard. `choices` says whether data ranks have a group
  // for calls within layers. FailedPrecondition: the rank does not have this shard, or a group
  // would not be whole. Otherwise errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Create(
      std::unique_ptr<Communicator> world, const MeshPosition& shard,
      absl::Span<const TensorSpec> tensors = {}, int context_copies = 1,
      ChoicesCounted choices = ChoicesCounted::kByDataRank);

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
  // Makes a communicator of the rank's group along the axes, beside those that Create makes; a
  // collective call of all ranks. Errors are the communicator's.
  absl::Status Make(Axes axes);
  // Returns the communicator of the rank's group along axes that were made; Create makes those of
  // kGradientAxes, of kShardAxes and kCopyAxes, of kContext, Axis::kTensor and Axis::kPipeline, and
  // with expert ranks those of kExpertAxes, kExpertShardAxes and kExpertCopyAxes, and where choices
  // are counted together that of kDataAxes.
  // REQUIRES: the rank is not alone there, or a group along some of kGradientAxes of a rank without
  // others is asked for, which is of this rank alone.
  Communicator& Group(Axes axes);
  // Returns the same; null if the rank is alone along the axes.
  Communicator* Others(Axes axes) { return mesh_.size(axes) == 1 ? nullptr : &Group(axes); }
  // Returns the communicator of those ranks of the group along Axis::kPipeline that have some
  // tensors in common; null if this rank has none.
  Communicator* tied_group() { return tied_group_.get(); }

  // Returns the traffic of the rank in all groups along some of the axes: along kGradientAxes with
  // that in the group of all ranks and without that in groups for calls within layers (of context
  // and expert ranks, and of those that count choices together),
  // along Axis::kPipeline with that of tied_group().
  CollectiveTraffic traffic(Axes axes) const;
  // Returns the records of the rank's calls in each group that has a communicator of its own.
  std::vector<const FlightRecorder*> recorders() const;

 private:
  RankGroups(std::unique_ptr<Communicator> world, const Mesh& mesh);

  // A group that has a communicator of its own.
  struct Made {
    Axes axes;
    std::unique_ptr<Communicator> group;
  };

  // Returns the group along the axes that was made; made_.end(): none was.
  std::vector<Made>::iterator made_group(Axes axes) {
    return std::find_if(made_.begin(), made_.end(),
                        [axes](const Made& one) { return one.axes == axes; });
  }

  const std::unique_ptr<Communicator> world_;
  const Mesh mesh_;
  // Communicators of host memory in whose place others are now.
  std::vector<std::unique_ptr<Communicator>> replaced_;
  // The others are a larger group.
  std::vector<Made> made_;
  std::unique_ptr<Communicator> tied_group_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_RANK_GROUPS_H_
