#include "common/mesh/recovery_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

bool Reaches(uint64_t own, bool has_sums, uint64_t clock) {
  return own == clock || (own + 1 == clock && has_sums);
}

bool HasShard(const RankHolding& rank, uint64_t clock) {
  return rank.clock.has_value() && Reaches(*rank.clock, rank.has_sums, clock);
}

// Returns the rank that sends the shard: the lowest replica, else the lowest keeper; -1 for none.
int SourceOf(absl::Span<const RankHolding> ranks, int shard, const Mesh& mesh, uint64_t clock) {
  const int size = static_cast<int>(ranks.size());
  for (int rank = 0; rank < size; ++rank) {
    if (mesh.Position(rank, kStateAxes) == shard && HasShard(ranks[rank], clock)) return rank;
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (FindCopy(ranks[rank], shard, clock) != nullptr) return static_cast<int>(rank);
  }
  return -1;
}

absl::Status LostShard(int shard, int shards, uint64_t clock) {
  return absl::NotFoundError(absl::StrCat("no worker has shard ", shard, " of ", shards,
                                          " or a copy of it at step ", clock));
}

bool IsBehind(const RankHolding& rank, uint64_t clock) {
  const auto behind = [clock](uint64_t own, bool has_sums) {
    return own != clock && Reaches(own, has_sums, clock);
  };
  return (rank.clock.has_value() && behind(*rank.clock, rank.has_sums)) ||
         std::any_of(rank.copies.begin(), rank.copies.end(), [&](const RankHolding::Copy& copy) {
           return behind(copy.clock, copy.has_sums);
         });
}

// Returns whether the rank has only shards that it may have in the round.
bool HasShardsOfRound(const RankHolding& rank, int shard, int shards) {
  if (rank.shards == 0) return true;
  if (rank.clock.has_value() && rank.shard != shard) return false;
  return rank.shards == shards || (!rank.clock.has_value() && rank.copies.empty());
}

// Returns the rank that sends a former shard, one of `shards`, to all: the lowest that has it, else
// the lowest that has a copy; -1 for none.
int SourceOfFormer(absl::Span<const RankHolding> ranks, int shard, int shards, uint64_t clock) {
  int keeper = -1;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].shards != shards) continue;
    if (ranks[rank].shard == shard && HasShard(ranks[rank], clock)) return static_cast<int>(rank);
    if (keeper < 0 && FindCopy(ranks[rank], shard, clock) != nullptr) {
      keeper = static_cast<int>(rank);
    }
  }
  return keeper;
}

// Plans to divide the parameters anew.
absl::StatusOr<RecoveryPlan> PlanNewShards(absl::Span<const RankHolding> ranks, RecoveryPlan plan) {
  std::set<int> numbers;
  for (const RankHolding& rank : ranks) {
    if (rank.clock.has_value() || !rank.copies.empty()) numbers.insert(rank.shards);
  }
  absl::Status lost;
  // After a loss in a round that had begun to divide them anew, some ranks may have new shards.
  for (const int shards : numbers) {
    plan.former.clear();
    lost = absl::OkStatus();
    for (int shard = 0; shard < shards && lost.ok(); ++shard) {
      plan.former.push_back(SourceOfFormer(ranks, shard, shards, plan.clock));
      if (plan.former.back() < 0) lost = LostShard(shard, shards, plan.clock);
    }
    if (lost.ok()) return plan;
  }
  return lost;
}

}  // namespace

const RankHolding::Copy* FindCopy(const RankHolding& rank, int shard, uint64_t clock) {
  for (const RankHolding::Copy& copy : rank.copies) {
    if (copy.shard == shard && Reaches(copy.clock, copy.has_sums, clock)) return &copy;
  }
  return nullptr;
}

absl::StatusOr<RecoveryPlan> PlanRecovery(absl::Span<const RankHolding> ranks, const Mesh& mesh) {
  const int shards = mesh.size(kStateAxes);
  const int size = static_cast<int>(ranks.size());
  RecoveryPlan plan;
  plan.leader = -1;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const absl::optional<uint64_t>& clock = ranks[rank].clock;
    if (!clock.has_value() || (plan.leader >= 0 && *clock <= plan.clock)) continue;
    plan.clock = *clock;
    plan.leader = static_cast<int>(rank);
  }
  if (plan.leader < 0) return absl::NotFoundError("no worker has a replica left");
  bool in_place = true;
  for (int rank = 0; rank < size; ++rank) {
    plan.rolls_forward = plan.rolls_forward || IsBehind(ranks[rank], plan.clock);
    in_place = in_place && HasShardsOfRound(ranks[rank], mesh.Position(rank, kStateAxes), shards);
  }
  if (!in_place) return PlanNewShards(ranks, std::move(plan));
  for (int rank = 0; rank < size; ++rank) {
    if (HasShard(ranks[rank], plan.clock)) continue;
    const int shard = mesh.Position(rank, kStateAxes);
    const int source = SourceOf(ranks, shard, mesh, plan.clock);
    if (source < 0) return LostShard(shard, shards, plan.clock);
    plan.transfers.push_back({shard, source, rank});
  }
  return plan;
}

std::vector<int> Keepers(absl::Span<const uint64_t> daemons, int group) {
  const int ranks = static_cast<int>(daemons.size());
  std::vector<std::set<uint64_t>> of_group(ranks / group);
  for (int rank = 0; rank < ranks; ++rank) of_group[rank / group].insert(daemons[rank]);
  // Returns the number of daemons whose loss takes both ranks out of the round.
  const auto common = [&](int a, int b) {
    const std::set<uint64_t>& others = of_group[b / group];
    return std::count_if(of_group[a / group].begin(), of_group[a / group].end(),
                         [&others](uint64_t daemon) { return others.count(daemon) > 0; });
  };
  std::vector<int> keepers(ranks, -1);
  std::vector<int> kept(ranks);
  for (int owner = 0; owner < ranks; ++owner) {
    int& best = keepers[owner];
    const auto cost = [&](int rank) { return std::pair(common(owner, rank), kept[rank]); };
    for (int i = 1; i < ranks; ++i) {
      const int rank = (owner + i) % ranks;
      if (daemons[rank] == daemons[owner]) continue;
      if (best < 0 || cost(rank) < cost(best)) best = rank;
    }
    if (best >= 0) ++kept[best];
  }
  return keepers;
}

std::vector<ShardTransfer> PlanHandOver(const Mesh& mesh, absl::Span<const int> leaving) {
  std::set<int> safe;
  std::vector<int> heirs;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    if (std::find(leaving.begin(), leaving.end(), rank) != leaving.end()) continue;
    safe.insert(mesh.Position(rank, kStateAxes));
    heirs.push_back(rank);
  }
  std::vector<ShardTransfer> transfers;
  for (const int rank : leaving) {
    const int shard = mesh.Position(rank, kStateAxes);
    if (!safe.insert(shard).second) continue;
    transfers.push_back({shard, rank, heirs[transfers.size() % heirs.size()]});
  }
  return transfers;
}

std::vector<ShardTransfer> PlanCopies(absl::Span<const RankHolding> ranks,
                                      absl::Span<const int> keepers, uint64_t clock) {
  std::vector<ShardTransfer> transfers;
  for (int owner = 0; owner < static_cast<int>(keepers.size()); ++owner) {
    const int keeper = keepers[owner];
    if (keeper < 0 || FindCopy(ranks[keeper], owner, clock) != nullptr) continue;
    transfers.push_back({owner, owner, keeper});
  }
  return transfers;
}

}  // namespace muster
