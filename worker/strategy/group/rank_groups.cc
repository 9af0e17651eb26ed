#include "worker/strategy/group/rank_groups.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

RankGroups::RankGroups(std::unique_ptr<Communicator> world) : world_(std::move(world)) {}

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(std::unique_ptr<Communicator> world,
                                                               ShardIndex shard) {
  std::unique_ptr<RankGroups> groups(new RankGroups(std::move(world)));
  const int rank = groups->world().rank();
  const int ranks = groups->world().size();
  if (ranks % shard.count != 0 || rank % shard.count != shard.index) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", rank, " of ", ranks, " holds shard ", shard.index, " of ", shard.count,
        "; every rank r must hold shard r mod ", shard.count, ", and shard groups must be whole"));
  }
  // With one shard all ranks are replicas, and each is a shard group of its own, without calls.
  if (shard.count == 1 || shard.count == ranks) return groups;
  MUSTER_ASSIGN_OR_RETURN(groups->shard_group_, groups->world().Split(rank / shard.count, rank));
  MUSTER_ASSIGN_OR_RETURN(groups->replicas_, groups->world().Split(shard.index, rank));
  return groups;
}

CollectiveTraffic RankGroups::traffic() const {
  CollectiveTraffic sum;
  for (const Communicator* group : {world_.get(), shard_group_.get(), replicas_.get()}) {
    if (group == nullptr) continue;
    sum.sent += group->traffic().sent;
    sum.received += group->traffic().received;
  }
  return sum;
}

std::vector<const FlightRecorder*> RankGroups::recorders() const {
  std::vector<const FlightRecorder*> recorders;
  for (const Communicator* group : {world_.get(), shard_group_.get(), replicas_.get()}) {
    if (group != nullptr) recorders.push_back(&group->recorder());
  }
  return recorders;
}

}  // namespace muster
