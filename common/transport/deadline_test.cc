#include "common/transport/deadline.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

class Stop final : public Interrupt {
 public:
  absl::Status status() const override { return status_; }
  void Set(absl::Status status) { status_ = std::move(status); }

 private:
  absl::Status status_;
};

TEST(DeadlineTest, PassesWhenItsTimeIsOver) {
  EXPECT_TRUE(Deadline::After(absl::ZeroDuration()).passed());
  EXPECT_EQ(Deadline::After(-absl::Seconds(1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Deadline::After(absl::Hours(1)).status().ok());
  EXPECT_TRUE(Deadline::After(absl::InfiniteDuration()).status().ok());
}

TEST(DeadlineTest, OfTheWallClock) {
  EXPECT_TRUE(Deadline(absl::InfinitePast()).passed());
  EXPECT_FALSE(Deadline(absl::InfiniteFuture()).passed());
  const absl::Duration left = Deadline(absl::Now() + absl::Hours(1)).left();
  EXPECT_LE(left, absl::Hours(1));
  EXPECT_GT(left, absl::Minutes(50));
}

TEST(DeadlineTest, AnInterruptEndsItBeforeItsTime) {
  Stop stop;
  const Deadline deadline = Deadline::After(absl::Hours(1), &stop);
  EXPECT_TRUE(deadline.status().ok());
  stop.Set(absl::AbortedError("enough"));
  EXPECT_EQ(deadline.status(), absl::AbortedError("enough"));
  EXPECT_EQ(deadline.Sooner(absl::Minutes(1)).status(), absl::AbortedError("enough"));
  EXPECT_FALSE(deadline.passed());
}

TEST(DeadlineTest, SoonerNeverMakesItLater) {
  EXPECT_LE(Deadline::After(absl::Hours(1)).Sooner(absl::Minutes(1)).left(), absl::Minutes(1));
  EXPECT_LE(Deadline::After(absl::Minutes(1)).Sooner(absl::Hours(1)).left(), absl::Minutes(1));
}

TEST(DeadlineTest, NapsAreShortWhereSomethingMayInterrupt) {
  Stop stop;
  EXPECT_LE(Deadline::After(absl::Hours(1), &stop).nap(), absl::Milliseconds(20));
  EXPECT_GT(Deadline::After(absl::Hours(1)).nap(), absl::Seconds(1));
  // Never 0, which would spin, and poll takes whole milliseconds.
  EXPECT_GE(Deadline::After(absl::ZeroDuration()).nap_milliseconds(), 1);
  EXPECT_LE(Deadline::After(absl::Milliseconds(3)).nap_milliseconds(), 4);
}

}  // namespace
}  // namespace muster
