#include "common/mesh/recovery_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/mesh/holding_message.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kClock = 5;

// The point that a rank had reached when a loss ended the step at kClock.
enum class Progress {
  kLost,
  // Its sums were not complete.
  kSumming,
  // It had its sums, and its keeper had them, too.
  kSummed,
  // It had made the step.
  kStepped,
};

RankHolding HoldingAt(int rank, Progress progress, const std::vector<int>& keepers) {
  RankHolding holding;
  if (progress == Progress::kLost) return holding;
  holding.clock = progress == Progress::kStepped ? kClock + 1 : kClock;
  holding.has_sums = progress == Progress::kSummed;
  for (int owner = 0; owner < static_cast<int>(keepers.size()); ++owner) {
    if (keepers[owner] == rank) holding.copies.push_back({owner, *holding.clock, holding.has_sums});
  }
  return holding;
}

// Returns the mesh of ranks that divide the parameters into shards, which they have by turns.
Mesh InShards(size_t ranks, size_t shards) {
  if (ranks == 0) return Mesh();
  return Mesh({.replica = static_cast<int>(ranks / shards), .shard = static_cast<int>(shards)});
}

// Returns whether some rank's survival gives the shard.
bool Survives(int shard, int shards, const std::vector<Progress>& ranks,
              const std::vector<int>& keepers) {
  for (size_t rank = shard; rank < ranks.size(); rank += shards) {
    if (ranks[rank] != Progress::kLost) return true;
  }
  return !keepers.empty() && keepers[shard] >= 0 && ranks[keepers[shard]] != Progress::kLost;
}

void Check(const std::vector<Progress>& ranks, int shards, const std::vector<int>& keepers) {
  std::vector<RankHolding> holdings;
  std::string name;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    holdings.push_back(HoldingAt(static_cast<int>(rank), ranks[rank], keepers));
    name += std::to_string(static_cast<int>(ranks[rank]));
  }
  SCOPED_TRACE(name + " in shards " + std::to_string(shards));
  bool survives = true;
  for (int shard = 0; shard < shards; ++shard) {
    survives = survives && Survives(shard, shards, ranks, keepers);
  }
  const absl::StatusOr<RecoveryPlan> plan =
      PlanRecovery(holdings, InShards(holdings.size(), shards));
  ASSERT_EQ(plan.ok(), survives) << plan.status();
  if (!survives) return;

  const auto count = [&](Progress progress) {
    return std::count(ranks.begin(), ranks.end(), progress);
  };
  const bool stepped = count(Progress::kStepped) > 0;
  EXPECT_EQ(plan->clock, kClock + (stepped ? 1 : 0));
  EXPECT_EQ(plan->rolls_forward, stepped && count(Progress::kSummed) > 0);
  EXPECT_EQ(holdings[plan->leader].clock, plan->clock);
  std::vector<int> receivers;
  for (const ShardTransfer& transfer : plan->transfers) {
    receivers.push_back(transfer.to);
    EXPECT_EQ(transfer.shard, transfer.to % shards);
    EXPECT_NE(ranks[transfer.from], Progress::kLost);
    if (transfer.from % shards == transfer.shard) continue;
    EXPECT_EQ(keepers[transfer.shard], transfer.from) << "it has neither the shard nor a copy";
    for (size_t rank = transfer.shard; rank < ranks.size(); rank += shards) {
      EXPECT_EQ(ranks[rank], Progress::kLost) << "a replica was passed over";
    }
  }
  std::vector<int> lost;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank] == Progress::kLost) lost.push_back(static_cast<int>(rank));
  }
  EXPECT_EQ(receivers, lost);
  if (keepers.empty()) return;
  for (const ShardTransfer& copy : PlanCopies(holdings, keepers, plan->clock)) {
    EXPECT_EQ(keepers[copy.from], copy.to);
    EXPECT_EQ(copy.shard, copy.from);
    EXPECT_EQ(ranks[copy.to], Progress::kLost) << "it has the copy already";
  }
}

// Goes through all that can have happened to so many ranks.
void CheckAll(int size, int shards, const std::vector<int>& keepers) {
  std::vector<Progress> ranks(size);
  const int cases = 1 << (2 * size);
  for (int number = 0; number < cases; ++number) {
    for (int rank = 0; rank < size; ++rank) {
      ranks[rank] = static_cast<Progress>((number >> (2 * rank)) & 3);
    }
    const bool stepped = std::count(ranks.begin(), ranks.end(), Progress::kStepped) > 0;
    // Nobody steps before all sums are complete.
    if (stepped && std::count(ranks.begin(), ranks.end(), Progress::kSumming) > 0) continue;
    Check(ranks, shards, keepers);
  }
}

TEST(RecoveryPlanTest, FindsEveryShardThatSurvives) {
  for (int size = 1; size <= 6; ++size) {
    for (int shards = 1; shards <= size; ++shards) {
      if (size % shards == 0) CheckAll(size, shards, {});
    }
  }
}

TEST(RecoveryPlanTest, FindsCopiesOfShards) {
  for (int size = 2; size <= 6; ++size) {
    for (int per_daemon = 1; per_daemon < size; ++per_daemon) {
      std::vector<uint64_t> daemons;
      for (int rank = 0; rank < size; ++rank) daemons.push_back(rank / per_daemon);
      CheckAll(size, size, Keepers(daemons, 1));
    }
  }
}

TEST(RecoveryPlanTest, NothingIsLeftOfNobody) {
  EXPECT_THAT(
      std::string(PlanRecovery({RankHolding(), RankHolding()}, InShards(2, 2)).status().message()),
      HasSubstr("no worker has a replica left"));
  EXPECT_THAT(
      std::string(PlanRecovery({{.clock = 3}, RankHolding()}, InShards(2, 2)).status().message()),
      HasSubstr("shard 1 of 2 or a copy of it at step 3"));
}

TEST(RecoveryPlanTest, AnOldCopyIsNone) {
  std::vector<RankHolding> ranks = {{.clock = 3}, RankHolding()};
  ranks[0].copies = {{.shard = 1, .clock = 2}};
  EXPECT_FALSE(PlanRecovery(ranks, InShards(ranks.size(), 2)).ok());
  ranks[0].copies[0].has_sums = true;
  ASSERT_TRUE(PlanRecovery(ranks, InShards(ranks.size(), 2)).ok());
  EXPECT_TRUE(PlanRecovery(ranks, InShards(ranks.size(), 2))->rolls_forward);
  EXPECT_THAT(PlanRecovery(ranks, InShards(ranks.size(), 2))->transfers,
              ElementsAre(ShardTransfer{1, 0, 1}));
}

// Former ranks, some of which are lost, meet newcomers that come after them.
void CheckNewShards(const std::vector<Progress>& former, int newcomers,
                    const std::vector<int>& keepers) {
  const int count = static_cast<int>(former.size());
  std::vector<RankHolding> ranks;
  std::vector<int> rank_of(count, -1);
  bool in_place = true;
  for (int old = 0; old < count; ++old) {
    if (former[old] == Progress::kLost) continue;
    rank_of[old] = static_cast<int>(ranks.size());
    in_place = in_place && rank_of[old] == old;
    RankHolding& holding = ranks.emplace_back(HoldingAt(old, former[old], keepers));
    holding.shards = count;
    holding.shard = old;
  }
  // The shard that a task without parameters was made for means nothing.
  for (int i = 0; i < newcomers; ++i) ranks.push_back({.shards = 9, .shard = 5});
  const int size = static_cast<int>(ranks.size());
  in_place = in_place && size == count;
  bool survives = size > newcomers;
  for (int shard = 0; shard < count; ++shard) {
    survives = survives && Survives(shard, count, former, keepers);
  }
  const absl::StatusOr<RecoveryPlan> plan = PlanRecovery(ranks, InShards(ranks.size(), size));
  ASSERT_EQ(plan.ok(), survives) << plan.status();
  if (!survives) return;
  EXPECT_EQ(plan->former.empty(), in_place);
  if (in_place) return;
  EXPECT_TRUE(plan->transfers.empty());
  ASSERT_EQ(plan->former.size(), static_cast<size_t>(count));
  for (int shard = 0; shard < count; ++shard) {
    const int owner = rank_of[shard];
    EXPECT_EQ(plan->former[shard], owner >= 0 ? owner : rank_of[keepers[shard]]) << shard;
  }
  const bool stepped = std::count(former.begin(), former.end(), Progress::kStepped) > 0;
  EXPECT_EQ(plan->clock, kClock + (stepped ? 1 : 0));
  EXPECT_EQ(plan->rolls_forward,
            stepped && std::count(former.begin(), former.end(), Progress::kSummed) > 0);
}

TEST(RecoveryPlanTest, FindsEveryFormerShardThatSurvives) {
  for (int count = 1; count <= 5; ++count) {
    std::vector<uint64_t> daemons(count);
    for (int rank = 0; rank < count; ++rank) daemons[rank] = rank;
    for (const std::vector<int>& keepers : {std::vector<int>(count, -1), Keepers(daemons, 1)}) {
      for (int number = 0; number < 1 << (2 * count); ++number) {
        std::vector<Progress> former(count);
        for (int rank = 0; rank < count; ++rank) {
          former[rank] = static_cast<Progress>((number >> (2 * rank)) & 3);
        }
        const bool stepped = std::count(former.begin(), former.end(), Progress::kStepped) > 0;
        if (stepped && std::count(former.begin(), former.end(), Progress::kSumming) > 0) continue;
        for (int newcomers = 0; newcomers <= 2; ++newcomers) {
          SCOPED_TRACE(std::to_string(number) + " of " + std::to_string(count) + " with " +
                       std::to_string(newcomers) + " newcomers");
          CheckNewShards(former, newcomers, keepers);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// A rank was lost while others took their new shards.
TEST(RecoveryPlanTest, TakesTheDivisionOfWhichAllIsThere) {
  std::vector<RankHolding> ranks = {{.clock = 3, .shards = 2, .shard = 0},
                                    {.clock = 3, .shards = 3, .shard = 1}};
  EXPECT_THAT(std::string(PlanRecovery(ranks, InShards(ranks.size(), 2)).status().message()),
              HasSubstr("shard 0 of 3 or a copy of it at step 3"));
  ranks.push_back({.clock = 3, .shards = 2, .shard = 1});
  ASSERT_TRUE(PlanRecovery(ranks, InShards(ranks.size(), 3)).ok())
      << PlanRecovery(ranks, InShards(ranks.size(), 3)).status();
  EXPECT_THAT(PlanRecovery(ranks, InShards(ranks.size(), 3))->former, ElementsAre(0, 2));
  ranks[0] = {.clock = 3, .shards = 3, .shard = 0};
  ranks[2].copies = {{.shard = 0, .clock = 3}};
  EXPECT_THAT(PlanRecovery(ranks, InShards(ranks.size(), 3))->former, ElementsAre(2, 2));
}

TEST(RecoveryPlanTest, HoldingsTravel) {
  RankHolding holding = {.clock = 0, .has_sums = true, .shards = 3, .shard = 2};
  holding.copies = {{.shard = 1, .clock = 4, .has_sums = true}, {.shard = 0, .clock = 5}};
  for (const bool has_shard : {true, false}) {
    if (!has_shard) holding.clock.reset();
    v1::RendezvousRequest request;
    SetHolding(holding, request);
    const RankHolding read = HoldingOf(request);
    EXPECT_EQ(read.clock, holding.clock);
    EXPECT_TRUE(read.has_sums);
    EXPECT_EQ(read.shards, 3);
    EXPECT_EQ(read.shard, 2);
    ASSERT_EQ(read.copies.size(), 2u);
    EXPECT_EQ(read.copies[0].shard, 1);
    EXPECT_EQ(read.copies[0].clock, 4u);
    EXPECT_TRUE(read.copies[0].has_sums);
    EXPECT_FALSE(read.copies[1].has_sums);
  }
}

TEST(RecoveryPlanTest, KeepersAreOnOtherDaemonsAndShareOut) {
  EXPECT_THAT(Keepers({}, 1), IsEmpty());
  EXPECT_THAT(Keepers({7, 7, 7}, 1), ElementsAre(-1, -1, -1));
  EXPECT_THAT(Keepers({1, 2, 3}, 1), ElementsAre(1, 2, 0));
  EXPECT_THAT(Keepers({1, 1, 2, 2}, 1), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(Keepers({1, 1, 1, 2}, 1), ElementsAre(3, 3, 3, 0));
  for (int size = 2; size <= 12; ++size) {
    for (int per_daemon = 1; per_daemon < size; ++per_daemon) {
      std::vector<uint64_t> daemons;
      for (int rank = 0; rank < size; ++rank) daemons.push_back(rank / per_daemon);
      std::vector<int> kept(size);
      for (int rank = 0; rank < size; ++rank) {
        const int keeper = Keepers(daemons, 1)[rank];
        ASSERT_GE(keeper, 0);
        EXPECT_NE(daemons[keeper], daemons[rank]);
        ++kept[keeper];
      }
      // With daemons of one size, every rank keeps as many as any other.
      if (size % per_daemon == 0) EXPECT_THAT(kept, ::testing::Each(1)) << size << per_daemon;
    }
  }
}

TEST(RecoveryPlanTest, KeepersAreOfOtherGroupsAndShareOut) {
  EXPECT_THAT(Keepers({1, 2, 3, 4}, 2), ElementsAre(2, 3, 0, 1));
  // The only other group has a daemon in common, which is better than the own group.
  EXPECT_THAT(Keepers({1, 2, 2, 3}, 2), ElementsAre(2, 3, 0, 1));
  // A single group: a lost rank may still be replaced in time.
  EXPECT_THAT(Keepers({1, 2}, 2), ElementsAre(1, 0));
  for (int group = 2; group <= 4; ++group) {
    for (int groups = 2; groups <= 5; ++groups) {
      for (int per_daemon = 1; per_daemon <= group; ++per_daemon) {
        if (group % per_daemon != 0) continue;
        std::vector<uint64_t> daemons;
        std::vector<int> kept(group * groups);
        for (int rank = 0; rank < group * groups; ++rank) daemons.push_back(rank / per_daemon);
        const std::vector<int> keepers = Keepers(daemons, group);
        for (int rank = 0; rank < group * groups; ++rank) {
          EXPECT_NE(keepers[rank] / group, rank / group);
          ++kept[keepers[rank]];
        }
        EXPECT_THAT(kept, ::testing::Each(1)) << groups << " groups of " << group;
      }
    }
  }
}

// Ranks in groups are on daemons, one of which is lost, and with it all groups that have ranks
// there. The others go on with all shards wherever another group of each such group was apart.
void CheckLossOfADaemon(const std::vector<uint64_t>& daemons, int group, uint64_t lost) {
  const int size = static_cast<int>(daemons.size());
  const auto is_on = [&](int first, uint64_t daemon) {
    const auto begin = daemons.begin() + first;
    return std::find(begin, begin + group, daemon) != begin + group;
  };
  const auto is_apart = [&](int a, int b) {
    return std::none_of(daemons.begin() + a, daemons.begin() + a + group,
                        [&](uint64_t daemon) { return is_on(b, daemon); });
  };
  const std::vector<int> keepers = Keepers(daemons, group);
  std::vector<RankHolding> left;
  bool survives = true;
  for (int first = 0; first < size; first += group) {
    if (is_on(first, lost)) {
      bool some_apart = false;
      for (int other = 0; other < size; other += group) some_apart |= is_apart(first, other);
      survives = survives && some_apart;
      continue;
    }
    for (int rank = first; rank < first + group; ++rank) {
      RankHolding& holding = left.emplace_back(HoldingAt(rank, Progress::kSummed, keepers));
      holding.shards = size;
      holding.shard = rank;
    }
  }
  if (left.empty() || !survives) return;
  const absl::StatusOr<RecoveryPlan> plan = PlanRecovery(left, InShards(left.size(), left.size()));
  EXPECT_TRUE(plan.ok()) << plan.status() << ": daemon " << lost << " of "
                         << ::testing::PrintToString(daemons) << " in groups of " << group;
}

TEST(RecoveryPlanTest, CopiesOutliveTheGroupThatLeavesWithALostDaemon) {
  for (const int group : {1, 2, 3}) {
    for (int size = group; size <= 6; size += group) {
      // Every way to place the ranks on four daemons.
      for (int number = 0; number < 1 << (2 * size); ++number) {
        std::vector<uint64_t> daemons;
        for (int rank = 0; rank < size; ++rank) daemons.push_back((number >> (2 * rank)) & 3);
        for (const uint64_t lost : {0, 1, 2, 3}) CheckLossOfADaemon(daemons, group, lost);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(RecoveryPlanTest, AShardComesFromTheSameStage) {
  std::vector<RankHolding> ranks(4, RankHolding{.clock = kClock});
  ranks[3] = {};
  const Mesh mesh({.pipeline = 2, .replica = 2});
  ASSERT_TRUE(PlanRecovery(ranks, mesh).ok());
  EXPECT_THAT(PlanRecovery(ranks, mesh)->transfers, ElementsAre(ShardTransfer{1, 2, 3}));
  ranks[2] = {};
  EXPECT_THAT(std::string(PlanRecovery(ranks, mesh).status().message()),
              HasSubstr("no worker has shard 1 of 2"));
}

TEST(PlanHandOverTest, WhatOnlyLeavingRanksHaveGoesToThoseThatStay) {
  const Mesh shards({.shard = 4});
  EXPECT_EQ(PlanHandOver(shards, {1}), (std::vector<ShardTransfer>{{1, 1, 0}}));
  EXPECT_EQ(PlanHandOver(shards, {3, 1}), (std::vector<ShardTransfer>{{3, 3, 0}, {1, 1, 2}}));
  EXPECT_EQ(PlanHandOver(shards, {0, 1, 2}),
            (std::vector<ShardTransfer>{{0, 0, 3}, {1, 1, 3}, {2, 2, 3}}));
  // Ranks 0 and 2 have shard 0, ranks 1 and 3 shard 1.
  const Mesh replicas({.replica = 2, .shard = 2});
  EXPECT_TRUE(PlanHandOver(replicas, {1}).empty()) << "rank 3 has the same";
  EXPECT_EQ(PlanHandOver(replicas, {1, 3}), (std::vector<ShardTransfer>{{1, 1, 0}}));
}

}  // namespace
}  // namespace muster
