#include "server/shard/partition/apply/clocks.h"

#include <gtest/gtest.h>

#include "server/shard/tables/staleness_policy.h"

namespace muster {
namespace {

TEST(ClocksTest, CountsSlowestAndFastest) {
  Clocks clocks(2, 5);
  EXPECT_EQ(clocks.slowest(), 5u);
  clocks.Close(1, 3);
  clocks.Close(1, 4);
  EXPECT_EQ(clocks.slowest(), 5u);
  EXPECT_EQ(clocks.fastest(), 7u);
  clocks.Close(0, 1);
  EXPECT_EQ(clocks.slowest(), 6u);
  EXPECT_EQ(clocks.completed(), 5u);
}

TEST(ClocksTest, CompletesOneClockAtATimeWithItsExamples) {
  Clocks clocks(2, 0);
  clocks.Close(1, 3);
  clocks.Close(1, 4);
  clocks.Close(0, 10);
  EXPECT_EQ(clocks.pending_examples(), 13u);
  EXPECT_EQ(clocks.Complete(), 13u);
  clocks.Close(0, 20);
  EXPECT_EQ(clocks.Complete(), 24u);
  EXPECT_EQ(clocks.completed(), 2u);
}

TEST(ClocksTest, KeepsNothingWhereExamplesAreNotAskedFor) {
  Clocks clocks(1, 0);
  for (int i = 0; i < 10; ++i) clocks.Close(0, std::nullopt);
  EXPECT_TRUE(clocks.slot(0).pending_examples.empty());
  clocks.Complete();
  EXPECT_EQ(clocks.completed(), 1u);
}

TEST(StalenessPolicyTest, OneBoundStandsForBspSspAndAsp) {
  EXPECT_TRUE(StalenessPolicy::Bounded(0).synchronous());
  EXPECT_EQ(StalenessPolicy::Bounded(0).Required(7), 7u);
  EXPECT_FALSE(StalenessPolicy::Bounded(3).synchronous());
  EXPECT_EQ(StalenessPolicy::Bounded(3).Required(7), 4u);
  EXPECT_EQ(StalenessPolicy::Bounded(3).Required(2), 0u);
  EXPECT_FALSE(StalenessPolicy::Unlimited().synchronous());
  EXPECT_EQ(StalenessPolicy::Unlimited().Required(1000000), 0u);
}

}  // namespace
}  // namespace muster
