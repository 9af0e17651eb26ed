#include "client/chaos/chaos_plan.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ChaosPlanTest, SameSeedSamePlan) {
  const auto first = PlanChaos(20, 7), second = PlanChaos(20, 7), other = PlanChaos(20, 8);
  bool differs = false;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].kind, second[i].kind);
    EXPECT_EQ(first[i].seed, second[i].seed);
    differs |= first[i].seed != other[i].seed;
  }
  EXPECT_TRUE(differs);
}

TEST(ChaosPlanTest, EveryKindHasItsTurn) {
  std::map<ChaosKind, int> count;
  std::set<uint64_t> seeds;
  for (const ChaosRound& round : PlanChaos(51, 3)) {
    ++count[round.kind];
    seeds.insert(round.seed);
  }
  EXPECT_EQ(seeds.size(), 51u);
  for (ChaosKind kind :
       {ChaosKind::kKilledServer, ChaosKind::kDamagedFile, ChaosKind::kKilledCluster,
        ChaosKind::kLostVolume, ChaosKind::kDamagedCheckpoint}) {
    EXPECT_GE(count[kind], 10) << ChaosName(kind);
    EXPECT_LE(count[kind], 11) << ChaosName(kind);
  }
}

TEST(ChaosPlanTest, OneRoundIsOneRound) {
  ASSERT_EQ(PlanChaos(1, 1).size(), 1u);
  EXPECT_EQ(PlanChaos(1, 1)[0].number, 1);
  EXPECT_TRUE(PlanChaos(0, 1).empty());
}

}  // namespace
}  // namespace muster
