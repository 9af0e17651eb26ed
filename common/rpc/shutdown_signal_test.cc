#include "common/rpc/shutdown_signal.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

class SignalTest : public ::testing::TestWithParam<int> {};

TEST_P(SignalTest, EndsTheWaitWhicheverThreadItHits) {
  ShutdownSignal shutdown;
  std::thread sender([] { kill(getpid(), GetParam()); });
  EXPECT_EQ(shutdown.Wait(), strsignal(GetParam()));
  sender.join();
}

INSTANTIATE_TEST_SUITE_P(Signals, SignalTest, ::testing::Values(SIGTERM, SIGINT));

TEST(ShutdownSignalTest, TriggerEndsAWaitThatBeginsLaterAndSaysWhy) {
  ShutdownSignal shutdown;
  shutdown.Trigger("refused by the coordinator");
  shutdown.Trigger("something else");
  EXPECT_EQ(shutdown.Wait(), "refused by the coordinator");
}

TEST(ShutdownSignalTest, AWaitMayEndWithoutASignal) {
  ShutdownSignal shutdown;
  EXPECT_EQ(shutdown.WaitFor(absl::Milliseconds(1)), std::nullopt);
  shutdown.Trigger("no tasks are left here");
  EXPECT_EQ(shutdown.WaitFor(absl::Hours(1)), "no tasks are left here");
}

TEST(ShutdownSignalTest, ASecondSignalDoesNotKillAProcessThatIsEnding) {
  {
    ShutdownSignal shutdown;
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    EXPECT_FALSE(shutdown.Wait().empty());
  }
  SUCCEED() << "still alive";
}

}  // namespace
}  // namespace muster
