#include "common/base/work.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(PendingTest, HandsOverTheFirstResult) {
  Pending<std::string> pending;
  pending.Finish(std::string("first"));
  pending.Finish(absl::InternalError("second"));
  EXPECT_TRUE(pending.Wait(absl::ZeroDuration()).ok());
  EXPECT_EQ(*pending.Take(absl::ZeroDuration()), "first");
}

TEST(PendingTest, WaitTellsThatTheDeadlinePassedAndMayBeRepeated) {
  Pending<int> pending;
  EXPECT_EQ(pending.Wait(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  std::thread finisher([&] { pending.Finish(3); });
  EXPECT_EQ(*pending.Take(absl::InfiniteDuration()), 3);
  finisher.join();
}

TEST(PendingTest, CallbacksRunOnceWhetherEarlyOrLate) {
  Pending<int> pending;
  int early = 0, late = 0;
  pending.OnDone([&](const absl::Status& status) { early += status.ok(); });
  EXPECT_EQ(early, 0);
  pending.Finish(1);
  pending.OnDone([&](const absl::Status& status) { late += status.ok(); });
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 1);
}

TEST(PendingTest, AbortEndsItUnlessItHasEnded) {
  Pending<int> aborted;
  aborted.Abort(absl::CancelledError("job cancelled"));
  aborted.Finish(1);
  EXPECT_EQ(aborted.Take(absl::ZeroDuration()).status(), absl::CancelledError("job cancelled"));

  Pending<int> ended;
  ended.Finish(1);
  ended.Abort(absl::CancelledError("too late"));
  EXPECT_EQ(*ended.Take(absl::ZeroDuration()), 1);
}

}  // namespace
}  // namespace muster
