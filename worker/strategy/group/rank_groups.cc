#include "worker/strategy/group/rank_groups.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

CollectiveTraffic SumOf(absl::Span<const Communicator* const> groups) {
  CollectiveTraffic sum;
  for (const Communicator* group : groups) {
    if (group == nullptr) continue;
    sum.sent += group->traffic().sent;
    sum.received += group->traffic().received;
  }
  return sum;
}

}  // namespace

RankGroups::RankGroups(std::unique_ptr<Communicator> world, const ShardIndex& shard)
    : world_(std::move(world)), shards_(shard.count) {}

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(
    std::unique_ptr<Communicator> world, ShardIndex shard, absl::Span<const TensorSpec> tensors) {
  std::unique_ptr<RankGroups> groups(new RankGroups(std::move(world), shard));
  const int rank = groups->world().rank();
  const int ranks = groups->world().size();
  if (ranks % shard.coordinates() != 0 || shard.shards().Of(rank, ranks) != shard.coordinate()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " of ", ranks, " holds shard ", shard.index, " of ",
                     shard.count, " of tensor rank ", shard.tensor_rank, " of ", shard.tensor_ranks,
                     " of stage ", shard.stage, " of ", shard.stages,
                     "; tensor ranks must be neighbours, then shards, then stages, and groups of ",
                     shard.coordinates(), " ranks must be whole"));
  }
  // The whole world makes each group: it learns at once of a rank that fails meanwhile, for which a
  // smaller group would wait in vain.
  Communicator& all = groups->world();
  // The number of the tensor group, stage after stage.
  const int tensor_group = rank / shard.tensor_ranks;
  if (shard.tensor_ranks > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->tensor_group_, all.Split(tensor_group, rank));
  }
  if (shard.model_ranks() > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->data_group_, all.Split(shard.model_rank(), rank));
  }
  if (shard.stages > 1) {
    const int place = rank % (ranks / shard.stages);
    MUSTER_ASSIGN_OR_RETURN(groups->pipeline_group_, all.Split(place, rank));
    const bool has_tied = std::any_of(tensors.begin(), tensors.end(),
                                      [](const TensorSpec& tensor) { return tensor.stages > 1; });
    MUSTER_ASSIGN_OR_RETURN(groups->tied_group_, all.Split(has_tied ? place : -1, rank));
  }
  // With one shard all ranks of the data group are replicas.
  if (shard.count == 1 || shard.coordinates() == ranks) return groups;
  const int shard_group = tensor_group / shard.count;
  MUSTER_ASSIGN_OR_RETURN(groups->shard_group_,
                          all.Split(shard_group * shard.tensor_ranks + shard.tensor_rank, rank));
  MUSTER_ASSIGN_OR_RETURN(groups->replicas_, all.Split(shard.coordinate(), rank));
  return groups;
}

Communicator* RankGroups::replicas() {
  if (shards_ > 1) return replicas_.get();
  return data_group().size() > 1 ? &data_group() : nullptr;
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
