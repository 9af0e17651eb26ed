#include "worker/strategy/group/exchange/rank_groups.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/mesh/round_groups.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {

RankGroups::RankGroups(std::unique_ptr<Communicator> world, const Mesh& mesh)
    : world_(std::move(world)), mesh_(mesh) {}

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(std::unique_ptr<Communicator> world,
                                                               const MeshPosition& shard,
                                                               absl::Span<const TensorSpec> tensors,
                                                               int context_copies,
                                                               ChoicesCounted choices) {
  const int rank = world->rank();
  const int ranks = world->size();
  const int shards = shard.mesh.world_size();
  const int alike = shards * context_copies;
  const Mesh mesh = shard.mesh.WithCopies(ranks / alike, context_copies);
  if (ranks % alike != 0 || mesh.Position(rank, kStateAxes) != shard.rank) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " of ", ranks, " holds shard ", shard.at(kShardAxes), " of ",
                     shard.size(kShardAxes), " of tensor rank ", shard.at(Axis::kTensor), " of ",
                     shard.size(Axis::kTensor), " of stage ", shard.at(Axis::kPipeline), " of ",
                     shard.size(Axis::kPipeline),
                     "; tensor ranks must be neighbours, then shards, then stages, and groups of ",
                     alike, " ranks must be whole"));
  }
  std::unique_ptr<RankGroups> groups(new RankGroups(std::move(world), mesh));
  for (const Axes axes : GroupsOfRound(mesh, choices)) MUSTER_RETURN_IF_ERROR(groups->Make(axes));
  if (mesh.size(Axis::kPipeline) > 1) {
    const bool has_tied = std::any_of(tensors.begin(), tensors.end(),
                                      [](const TensorSpec& tensor) { return tensor.stages > 1; });
    const int group = mesh.Position(rank, Axes(Axis::kPipeline).Others());
    MUSTER_ASSIGN_OR_RETURN(groups->tied_group_,
                            groups->world().Split(has_tied ? group : -1, rank));
  }
  return groups;
}

absl::Status RankGroups::Make(Axes axes) {
  // The whole world makes each group: it learns at once of a rank that fails meanwhile, for which a
  // smaller group would wait in vain.
  const int rank = world_->rank();
  Made made = {.axes = axes};
  MUSTER_ASSIGN_OR_RETURN(made.group, world_->Split(mesh_.Position(rank, axes.Others()), rank));
  made_.push_back(std::move(made));
  return absl::OkStatus();
}

Communicator& RankGroups::Group(Axes axes) {
  for (const Made& made : made_) {
    if (made.axes == axes) return *made.group;
  }
  return axes == kGradientAxes ? *world_ : Group(kGradientAxes);
}

absl::Status RankGroups::MoveToDevices(Moved moved, const MakeDeviceCommunicator& make) {
  const bool slices = moved == Moved::kSlices;
  std::vector<Axes> moving =
      slices ? std::vector<Axes>{kShardAxes, kCopyAxes} : std::vector<Axes>{kGradientAxes};
  moving.insert(moving.end(), {Axis::kTensor, kContext, Axis::kPipeline});
  if (mesh_.size(kExpertAxes) > 1) {
    moving.insert(moving.end(), {kExpertAxes, kExpertCopyAxes});
    if (slices) moving.push_back(kExpertShardAxes);
  }
  if (made_group(kDataAxes) != made_.end()) moving.push_back(kDataAxes);
  for (const Axes axes : moving) {
    // Slices lie in a communicator's memory even where a rank is alone.
    if (mesh_.size(axes) == 1 && axes != kShardAxes) continue;
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> device, make(Group(axes)));
    const auto made = made_group(axes);
    if (made == made_.end()) {
      made_.push_back({axes, std::move(device)});
    } else {
      replaced_.push_back(std::exchange(made->group, std::move(device)));
    }
  }
  if (tied_group_ == nullptr) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> device, make(*tied_group_));
  replaced_.push_back(std::exchange(tied_group_, std::move(device)));
  return absl::OkStatus();
}

CollectiveTraffic RankGroups::traffic(Axes axes) const {
  CollectiveTraffic sum;
  const auto add = [&sum](const Communicator& group) {
    Add(group.traffic(), sum.sent, sum.received);
  };
  if (axes == kGradientAxes) add(*world_);
  if (axes == Axis::kPipeline && tied_group_ != nullptr) add(*tied_group_);
  for (const Made& made : made_) {
    // Calls within layers are not those of gradients.
    const bool in_layers =
        made.axes == kContext || made.axes == kExpertAxes || made.axes == kDataAxes;
    if ((made.axes | axes) == axes && (made.axes == axes || !in_layers)) add(*made.group);
  }
  return sum;
}

std::vector<const FlightRecorder*> RankGroups::recorders() const {
  std::vector<const FlightRecorder*> recorders = {&world_->recorder()};
  for (const Made& made : made_) recorders.push_back(&made.group->recorder());
  if (tied_group_ != nullptr) recorders.push_back(&tied_group_->recorder());
  return recorders;
}

}  // namespace muster
