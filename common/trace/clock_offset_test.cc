#include "common/trace/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/base/philox.h"

namespace muster {
namespace {

TEST(ClockOffsetTest, TakesTheMiddleOfARoundTrip) {
  ClockOffset offset;
  EXPECT_FALSE(offset.known());
  offset.Add(100, 5130, 140);
  EXPECT_TRUE(offset.known());
  EXPECT_EQ(offset.offset_ns(), 5010);
  EXPECT_EQ(offset.error_ns(), 20);
}

TEST(ClockOffsetTest, KeepsTheBestRoundTrip) {
  ClockOffset offset;
  offset.Add(1'000, 1'500, 2'000);
  EXPECT_EQ(offset.offset_ns(), 0);
  offset.Add(3'000, 53'050, 3'100);
  EXPECT_EQ(offset.offset_ns(), 50'000);
  EXPECT_EQ(offset.error_ns(), 50);
  // A slow answer says less.
  offset.Add(4'000, 99'000, 8'000);
  EXPECT_EQ(offset.offset_ns(), 50'000);
  EXPECT_EQ(offset.error_ns(), 50);
}

TEST(ClockOffsetTest, PrefersALaterRoundTripOnceClocksMayHaveDrifted) {
  ClockOffset offset;
  offset.Add(0, 1'000, 100);
  const int64_t minute = 60'000'000'000;
  offset.Add(minute, minute + 9'000, minute + 4'000);
  EXPECT_EQ(offset.offset_ns(), 7'000);
  EXPECT_EQ(offset.error_ns(), 2'000);
}

TEST(ClockOffsetTest, AnswersAtOnceLeaveAnErrorThatIsNotZero) {
  ClockOffset offset;
  offset.Add(10, 20, 10);
  EXPECT_EQ(offset.offset_ns(), 10);
  EXPECT_EQ(offset.error_ns(), 1);
}

TEST(ClockOffsetTest, ErrorBoundsTheTruth) {
  // However the two ways divide a round trip.
  constexpr int64_t kAhead = -123'456'789;
  Philox random(7);
  for (int history = 0; history < 200; ++history) {
    ClockOffset offset;
    int64_t now = 1'000'000;
    for (int i = 0; i < 8; ++i) {
      const auto there = static_cast<int64_t>(random.Below(500'000, history, 2 * i));
      const auto back = static_cast<int64_t>(random.Below(500'000, history, 2 * i + 1));
      offset.Add(now, now + there + kAhead, now + there + back);
      now += there + back + 1'000;
      EXPECT_LE(std::abs(offset.offset_ns() - kAhead), offset.error_ns());
    }
    EXPECT_LE(offset.error_ns(), 500'000);
  }
}

}  // namespace
}  // namespace muster
