#include "client/chaos/faults/chaos_plan.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ChaosPlanTest, SameSeedSamePlan) {
  const auto first = PlanChaos(20, 7, AllChaosKinds()), second = PlanChaos(20, 7, AllChaosKinds()),
             other = PlanChaos(20, 8, AllChaosKinds());
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
  for (const ChaosRound& round : PlanChaos(151, 3, AllChaosKinds())) {
    ++count[round.kind];
    seeds.insert(round.seed);
  }
  EXPECT_EQ(seeds.size(), 151u);
  EXPECT_EQ(count.size(), AllChaosKinds().size());
  for (const ChaosKind kind : AllChaosKinds()) {
    EXPECT_GE(count[kind], 10) << ChaosName(kind);
    EXPECT_LE(count[kind], 11) << ChaosName(kind);
  }
}

TEST(ChaosPlanTest, NoKindButThoseAskedFor) {
  const std::vector<ChaosKind> kinds = {ChaosKind::kCutLink, ChaosKind::kLostVolume};
  std::map<ChaosKind, int> count;
  for (const ChaosRound& round : PlanChaos(10, 3, kinds)) ++count[round.kind];
  EXPECT_EQ(count.size(), 2u);
  EXPECT_EQ(count[ChaosKind::kCutLink], 5);
}

TEST(ChaosPlanTest, NamesTellKindsApart) {
  std::set<std::string> names;
  for (const ChaosKind kind : AllChaosKinds()) names.insert(ChaosName(kind));
  EXPECT_EQ(names.size(), AllChaosKinds().size());
  EXPECT_EQ(names.count("cut-link-rewrites-checkpoints"), 1u);
}

TEST(ChaosPlanTest, OneRoundIsOneRound) {
  ASSERT_EQ(PlanChaos(1, 1, AllChaosKinds()).size(), 1u);
  EXPECT_EQ(PlanChaos(1, 1, AllChaosKinds())[0].number, 1);
  EXPECT_TRUE(PlanChaos(0, 1, AllChaosKinds()).empty());
}

}  // namespace
}  // namespace muster
