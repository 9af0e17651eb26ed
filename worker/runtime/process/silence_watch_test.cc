#include "worker/runtime/process/silence_watch.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(5);

// Looks as often as it should from one time to another; returns what the last look said.
bool LookUntil(SilenceWatch& watch, absl::Duration from, absl::Duration to) {
  bool silent = false;
  for (absl::Duration now = from; now <= to; now += SilenceWatch::kLookEvery) {
    silent = watch.IsSilent(now);
  }
  return silent;
}

TEST(SilenceWatchTest, WhoeverNeverSpokeIsNotSilent) {
  SilenceWatch watch(kLimit);
  EXPECT_FALSE(LookUntil(watch, absl::ZeroDuration(), absl::Hours(1)));
}

TEST(SilenceWatchTest, SilenceIsTheTimeSinceTheLastSign) {
  SilenceWatch watch(kLimit);
  watch.Heard(absl::ZeroDuration());
  EXPECT_FALSE(LookUntil(watch, absl::ZeroDuration(), absl::Seconds(4)));
  watch.Heard(absl::Seconds(4));
  EXPECT_FALSE(LookUntil(watch, absl::Seconds(4), absl::Seconds(9)));
  EXPECT_TRUE(LookUntil(watch, absl::Seconds(9.5), absl::Seconds(9.5)));
}

TEST(SilenceWatchTest, APauseOfTheWatchingProcessDoesNotCount) {
  SilenceWatch watch(kLimit);
  watch.Heard(absl::ZeroDuration());
  EXPECT_FALSE(LookUntil(watch, absl::ZeroDuration(), absl::Seconds(4)));
  // Both stood still for an hour, as on a machine that slept.
  const absl::Duration after = absl::Seconds(4) + absl::Hours(1);
  EXPECT_FALSE(watch.IsSilent(after));
  EXPECT_FALSE(LookUntil(watch, after, after + absl::Milliseconds(500)));
  EXPECT_TRUE(LookUntil(watch, after + absl::Seconds(1), after + absl::Seconds(2)));
}

TEST(SilenceWatchTest, NobodyIsSilentWithoutALimitOrAfterTheEnd) {
  SilenceWatch for_ever(absl::InfiniteDuration());
  for_ever.Heard(absl::ZeroDuration());
  EXPECT_FALSE(LookUntil(for_ever, absl::ZeroDuration(), absl::Hours(1)));
  SilenceWatch ended(kLimit);
  ended.Heard(absl::ZeroDuration());
  ended.End();
  EXPECT_FALSE(LookUntil(ended, absl::ZeroDuration(), absl::Hours(1)));
}

}  // namespace
}  // namespace muster
