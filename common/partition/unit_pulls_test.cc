#include "common/partition/unit_pulls.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(UnitPullsTest, AsksForTheDueUnitAndTheNextAndForMoreWithinTheWindow) {
  UnitPulls pulls({0, 10, 10, 10, 30, 5}, /*window_bytes=*/25);
  for (int clock = 0; clock < 2; ++clock) {
    // Up to the first unit with parameters, and the next one in the window.
    EXPECT_EQ(pulls.Begin(), 3);
    EXPECT_EQ(pulls.Acquire(0), 3);
    EXPECT_EQ(pulls.Acquire(1), 3);
    pulls.Came(1);
    EXPECT_EQ(pulls.Acquire(2), 4);
    pulls.Came(2);
    // The next unit is asked for whatever its size.
    EXPECT_EQ(pulls.Acquire(3), 5);
    pulls.Came(3);
    EXPECT_EQ(pulls.Acquire(4), 6);
  }
}

TEST(UnitPullsTest, AModelWithoutParametersAsksForAllAtOnce) {
  UnitPulls pulls({0, 0}, /*window_bytes=*/0);
  EXPECT_EQ(pulls.Begin(), 2);
}

}  // namespace
}  // namespace muster
