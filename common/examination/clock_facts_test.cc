#include "common/examination/clock_facts.h"

#include "common/base/fake_clock_for_testing.h"
#include "gtest/gtest.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

TEST(ClockFactsTest, TheShortestRoundTripCounts) {
  FakeClock clock;
  // The coordinator is two seconds ahead, and answers in the middle of each round trip.
  int readings = 0;
  v1::ClockFacts facts;
  CompareClocks(
      clock,
      [&]() -> absl::StatusOr<int64_t> {
        const absl::Duration half = absl::Milliseconds(++readings == 3 ? 2 : 50);
        clock.Advance(half);
        const int64_t there = absl::ToUnixMicros(clock.Wall() + absl::Seconds(2));
        clock.Advance(half);
        return there;
      },
      facts);
  EXPECT_EQ(readings, 5);
  EXPECT_EQ(facts.offset_us(), -2'000'000);
  EXPECT_EQ(facts.error_us(), 2'000);
}

TEST(ClockFactsTest, AnAnswerAtAnyMomentIsWithinTheError) {
  FakeClock clock;
  v1::ClockFacts facts;
  CompareClocks(
      clock,
      [&]() -> absl::StatusOr<int64_t> {
        const int64_t there = absl::ToUnixMicros(clock.Wall());
        clock.Advance(absl::Milliseconds(10));
        return there;
      },
      facts);
  EXPECT_EQ(facts.offset_us(), 5'000);
  EXPECT_EQ(facts.error_us(), 5'000);
}

TEST(ClockFactsTest, AFailureIsTold) {
  const FakeClock clock;
  v1::ClockFacts facts;
  CompareClocks(
      clock, []() -> absl::StatusOr<int64_t> { return absl::UnavailableError("no route"); }, facts);
  EXPECT_EQ(facts.error(), "no route");
}

}  // namespace
}  // namespace muster
