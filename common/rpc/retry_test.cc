#include "common/rpc/retry.h"

#include <vector>

#include "common/base/fake_clock_for_testing.h"
#include "common/rpc/rpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Lets the fake clock pass instead of sleeping.
class FakeWaiter final : public Waiter {
 public:
  explicit FakeWaiter(FakeClock& clock) : clock_(clock) {}

  bool Wait(absl::Duration duration) override {
    waits_.push_back(duration);
    clock_.Advance(duration);
    return !stopped_;
  }
  void Stop() override { stopped_ = true; }

  const std::vector<absl::Duration>& waits() const { return waits_; }

 private:
  FakeClock& clock_;
  bool stopped_ = false;
  std::vector<absl::Duration> waits_;
};

class RetryTest : public ::testing::Test {
 protected:
  RetryTest() {
    options_.backoff.first = absl::Milliseconds(100);
    options_.backoff.longest = absl::Seconds(1);
    options_.give_up_after = absl::Seconds(10);
  }

  // Answers with `failures`, then OK.
  absl::Status Run(std::vector<absl::Status> failures) {
    attempts_ = 0;
    return Retry(options_, clock_, waiter_, Philox(7), [&]() -> absl::Status {
      if (attempts_ >= failures.size()) return ++attempts_, absl::OkStatus();
      return failures[attempts_++];
    });
  }

  RetryOptions options_;
  FakeClock clock_;
  FakeWaiter waiter_{clock_};
  size_t attempts_ = 0;
};

TEST_F(RetryTest, RepeatsWhatMayPassAndReturnsTheLastStatus) {
  EXPECT_TRUE(Run({absl::UnavailableError("a"), absl::DeadlineExceededError("b"),
                   absl::ResourceExhaustedError("c")})
                  .ok());
  EXPECT_EQ(attempts_, 4u);
}

TEST_F(RetryTest, DoesNotRepeatWhatIsFinal) {
  for (const absl::Status& final :
       {absl::InvalidArgumentError("x"), absl::AbortedError("x"), absl::DataLossError("x"),
        absl::FailedPreconditionError("x"), absl::NotFoundError("x"), absl::CancelledError("x")}) {
    EXPECT_EQ(Run({final}), final);
    EXPECT_EQ(attempts_, 1u);
  }
}

TEST_F(RetryTest, WaitsGrowWithinTheirBoundsAndAreJittered) {
  Run(std::vector<absl::Status>(8, absl::UnavailableError("gone"))).IgnoreError();
  ASSERT_EQ(waiter_.waits().size(), 8u);
  absl::Duration longest = options_.backoff.first;
  int jittered = 0;
  for (absl::Duration wait : waiter_.waits()) {
    EXPECT_LE(wait, longest);
    EXPECT_GE(wait, longest * 0.5);
    jittered += wait < longest;
    longest = std::min(longest * 2, options_.backoff.longest);
  }
  EXPECT_GE(jittered, 7);
}

TEST_F(RetryTest, KeepsToTheTimeTheAnswerAskedFor) {
  EXPECT_TRUE(
      Run({WithRetryAfter(absl::ResourceExhaustedError("full"), absl::Milliseconds(800))}).ok());
  EXPECT_THAT(waiter_.waits(), ::testing::ElementsAre(absl::Milliseconds(800)));
}

TEST_F(RetryTest, GivesUpInTime) {
  const absl::Status status = Run(std::vector<absl::Status>(1000, absl::UnavailableError("gone")));
  EXPECT_EQ(status, absl::UnavailableError("gone"));
  EXPECT_LE(clock_.Monotonic(), options_.give_up_after);
  EXPECT_GT(clock_.Monotonic(), options_.give_up_after - options_.backoff.longest);
}

TEST_F(RetryTest, EndsWhenStopped) {
  waiter_.Stop();
  EXPECT_EQ(Run({absl::UnavailableError("gone")}), absl::UnavailableError("gone"));
  EXPECT_EQ(attempts_, 1u);
}

TEST(BackoffTest, ResetStartsOver) {
  BackoffOptions options;
  options.jitter = 0;
  Backoff backoff(options, Philox(1));
  EXPECT_EQ(backoff.Next(), options.first);
  EXPECT_EQ(backoff.Next(), options.first * 2);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), options.first);
}

TEST(RealWaiterTest, StopEndsWaitsNowAndLater) {
  RealWaiter waiter;
  EXPECT_TRUE(waiter.Wait(absl::ZeroDuration()));
  waiter.Stop();
  EXPECT_FALSE(waiter.Wait(absl::Hours(1)));
}

}  // namespace
}  // namespace muster
