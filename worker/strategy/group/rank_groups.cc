#include "worker/strategy/group/rank_groups.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

RankGroups::RankGroups(std::unique_ptr<Communicator> world, const ShardIndex& shard)
    : world_(std::move(world)), shards_(shard.count) {}

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(std::unique_ptr<Communicator> world,
                                                               ShardIndex shard) {
  std::unique_ptr<RankGroups> groups(new RankGroups(std::move(world), shard));
  const int rank = groups->world().rank();
  const int ranks = groups->world().size();
  if (ranks % shard.coordinates() != 0 || rank % shard.coordinates() != shard.coordinate()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " of ", ranks, " holds shard ", shard.index, " of ",
                     shard.count, " of tensor rank ", shard.tensor_rank, " of ", shard.tensor_ranks,
                     "; tensor ranks must be neighbours, then shards, and groups of ",
                     shard.coordinates(), " ranks must be whole"));
  }
  // The whole world makes each group: it learns at once of a rank that fails meanwhile, for which a
  // smaller group would wait in vain.
  Communicator& all = groups->world();
  const int data_rank = rank / shard.tensor_ranks;
  if (shard.tensor_ranks > 1) {
    MUSTER_ASSIGN_OR_RETURN(groups->tensor_group_, all.Split(data_rank, rank));
    MUSTER_ASSIGN_OR_RETURN(groups->data_group_, all.Split(shard.tensor_rank, rank));
  }
  // With one shard all ranks of the data group are replicas.
  if (shard.count == 1 || shard.coordinates() == ranks) return groups;
  const int shard_group = data_rank / shard.count;
  MUSTER_ASSIGN_OR_RETURN(groups->shard_group_,
                          all.Split(shard_group * shard.tensor_ranks + shard.tensor_rank, rank));
  MUSTER_ASSIGN_OR_RETURN(groups->replicas_, all.Split(shard.coordinate(), rank));
  return groups;
}

Communicator* RankGroups::replicas() {
  if (shards_ > 1) return replicas_.get();
  return data_group().size() > 1 ? &data_group() : nullptr;
}

CollectiveTraffic RankGroups::traffic() const {
  CollectiveTraffic sum;
  for (const Communicator* group : along_data()) {
    if (group == nullptr) continue;
    sum.sent += group->traffic().sent;
    sum.received += group->traffic().received;
  }
  return sum;
}

std::vector<const FlightRecorder*> RankGroups::recorders() const {
  std::vector<const FlightRecorder*> recorders;
  for (const Communicator* group : along_data()) {
    if (group != nullptr) recorders.push_back(&group->recorder());
  }
  if (tensor_group_ != nullptr) recorders.push_back(&tensor_group_->recorder());
  return recorders;
}

}  // namespace muster
