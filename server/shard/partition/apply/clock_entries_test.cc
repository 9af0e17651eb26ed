#include "server/shard/partition/apply/clock_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/partition_state.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ClockEntriesTest, TheFirstSlotsThatAreNeededDecideAClock) {
  ClockEntries entries(4, 3, 5);
  EXPECT_EQ(entries.decided(), 5u);
  entries.Enter(2);
  entries.Enter(0);
  EXPECT_EQ(entries.decided(), 5u);
  EXPECT_TRUE(entries.HasEntered(2, 5));
  EXPECT_FALSE(entries.HasEntered(1, 5));
  entries.Enter(3);
  EXPECT_EQ(entries.decided(), 6u);
  EXPECT_THAT(entries.LeftOut(5), ElementsAre(1));
  EXPECT_FALSE(entries.HasEntered(1, 5));
}

TEST(ClockEntriesTest, EachClockHasADecisionOfItsOwn) {
  ClockEntries entries(3, 1, 0);
  entries.Enter(1);
  EXPECT_THAT(entries.LeftOut(0), ElementsAre(0, 2));
  // A slot that was left out may be the first of the next clock.
  entries.Enter(2);
  EXPECT_EQ(entries.decided(), 2u);
  EXPECT_THAT(entries.LeftOut(1), ElementsAre(0, 1));
  EXPECT_THAT(entries.LeftOut(0), IsEmpty()) << "only the last decision is kept";
  EXPECT_TRUE(entries.HasEntered(1, 0));
}

TEST(ClockEntriesTest, ADecisionThatIsUnderWayComesBackAsItWasSaved) {
  ClockEntries entries(4, 2, 0);
  for (const uint32_t slot : {3, 1, 2}) entries.Enter(slot);
  v1::PartitionState state;
  for (int slot = 0; slot < 4; ++slot) state.add_slots();
  entries.Save(state);
  ClockEntries restored(4, 2, 0);
  restored.Restore(state);
  EXPECT_EQ(restored.decided(), 1u);
  EXPECT_THAT(restored.LeftOut(0), ElementsAre(0, 2));
  EXPECT_TRUE(restored.HasEntered(3, 0));
  EXPECT_TRUE(restored.HasEntered(2, 1));
  restored.Enter(0);
  EXPECT_THAT(restored.LeftOut(1), ElementsAre(1, 3));
}

}  // namespace
}  // namespace muster
