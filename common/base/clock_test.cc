#include "common/base/fake_clock_for_testing.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ClockTest, FakeClockMovesOnlyWhenTold) {
  FakeClock clock;
  const absl::Duration before = clock.Monotonic();
  EXPECT_EQ(clock.Monotonic(), before);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Monotonic(), before + absl::Seconds(3));
}

TEST(ClockTest, RealClockNeverGoesBack) {
  RealClock clock;
  absl::Duration last = clock.Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock.Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace muster
