#include "worker/strategy/group/exchange/rank_groups.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

CollectiveTraffic SumOf(absl::Span<const Communicator* const> groups) {
  CollectiveTraffic sum;
  for (const Communicator* group : groups) {
    if (group != nullptr) Add(group->traffic(), sum.sent, sum.received);
  }
  return sum;
}

}  // namespace

RankGroups::RankGroups(std::unique_ptr<Communicator> world, const Mesh& mesh)
    : world_(std::move(world)), mesh_(mesh) {}

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(
    std::unique_ptr<Communicator> world, const MeshPosition& shard,
    absl::Span<const TensorSpec> tensors) {
  const int rank = world->rank();
  const int ranks = world->size();
  const int shards = shard.mesh.world_size();
  const Mesh mesh = shard.mesh.WithReplicas(ranks / shards);
  if (ranks % shards != 0 || mesh.Position(rank, kStateAxes) != shard.rank) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " of ", ranks, " holds shard ", shard.at(Axis::kShard), " of ",
                     shard.size(Axis::kShard), " of tensor rank ", shard.at(Axis::kTensor), " of ",
                     shard.size(Axis::kTensor), " of stage ", shard.at(Axis::kPipeline), " of ",
                     shard.size(Axis::kPipeline),
                     "; tensor ranks must be neighbours, then shards, then stages, and groups of ",
                     shards, " ranks must be whole"));
  }
  std::unique_ptr<RankGroups> groups(new RankGroups(std::move(world), mesh));
  // The whole world makes each group: it learns at once of a rank that fails meanwhile, for which a
  // smaller group would wait in vain.
  const auto split = [&](Axes axes) {
    return groups->world().Split(mesh.Position(rank, axes.Others()), rank);
  };
  if (mesh.size(Axis::kTensor) > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->tensor_group_, split(Axis::kTensor));
  }
  if (mesh.size(kModelAxes) > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->data_group_, split(kDataAxes));
  }
  if (mesh.size(Axis::kPipeline) > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->stage_group_, split(Axis::kPipeline));
    const bool has_tied = std::any_of(tensors.begin(), tensors.end(),
                                      [](const TensorSpec& tensor) { return tensor.stages > 1; });
    const int group = mesh.Position(rank, Axes(Axis::kPipeline).Others());
    MUSTER_ASSIGN_OR_RETURN(groups->tied_group_,
                            groups->world().Split(has_tied ? group : -1, rank));
  }
  // Otherwise the data group is all replicas, or all shards.
  if (mesh.size(Axis::kShard) > 1 && mesh.size(Axis::kReplica) > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->shard_group_, split(Axis::kShard));
    MUSTER_ASSIGN_OR_RETURN(groups->replicas_, split(Axis::kReplica));
  }
  return groups;
}

absl::Status RankGroups::MoveToDevices(Moved moved, const MakeDeviceCommunicator& make) {
  const auto replace = [&](std::unique_ptr<Communicator>& group,
                           Communicator* host) -> absl::Status {
    if (host == nullptr) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> device, make(*host));
    replaced_.push_back(std::exchange(group, std::move(device)));
    return absl::OkStatus();
  };
  if (moved == Moved::kSlices) {
    Communicator* const others = replicas();
    MUSTER_RETURN_IF_ERROR(replace(shard_group_, &shard_group()));
    MUSTER_RETURN_IF_ERROR(replace(replicas_, others));
  } else if (data_group().size() > 1) {
    MUSTER_RETURN_IF_ERROR(replace(data_group_, &data_group()));
  }
  MUSTER_RETURN_IF_ERROR(replace(tensor_group_, tensor_group_.get()));
  MUSTER_RETURN_IF_ERROR(replace(stage_group_, stage_group_.get()));
  return replace(tied_group_, tied_group_.get());
}

Communicator* RankGroups::replicas() {
  if (mesh_.size(Axis::kReplica) == 1) return nullptr;
  return replicas_ == nullptr ? &data_group() : replicas_.get();
}

CollectiveTraffic RankGroups::traffic() const { return SumOf(along_data()); }

CollectiveTraffic RankGroups::stage_traffic() const { return SumOf(along_stages()); }

std::vector<const FlightRecorder*> RankGroups::recorders() const {
  std::vector<const FlightRecorder*> recorders;
  const auto add = [&recorders](const Communicator* group) {
    if (group != nullptr) recorders.push_back(&group->recorder());
  };
  for (const Communicator* group : along_data()) add(group);
  for (const Communicator* group : along_stages()) add(group);
  add(tensor_group_.get());
  return recorders;
}

}  // namespace muster
