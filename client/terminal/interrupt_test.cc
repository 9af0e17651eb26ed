#include "client/terminal/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(InterruptTest, TheFirstSignalCallsAndTheSecondEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto interrupt_twice = [] {
    Interrupt interrupt;
    absl::Notification called;
    interrupt.Call([] { std::exit(7); });
    interrupt.Call([&called] { called.Notify(); });
    kill(getpid(), SIGINT);
    called.WaitForNotification();
    std::fputs(interrupt.happened() ? "it happened" : "", stderr);
    kill(getpid(), SIGINT);
    for (;;) pause();
  };
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "it happened");
}

TEST(InterruptTest, WithoutACallTheFirstSignalEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto interrupt = [] {
    Interrupt interrupt;
    kill(getpid(), SIGTERM);
    for (;;) pause();
  };
  EXPECT_EXIT(interrupt(), testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptTest, WithoutASignalNothingIsCalled) {
  bool called = false;
  {
    Interrupt interrupt;
    interrupt.Call([&called] { called = true; });
    EXPECT_FALSE(interrupt.happened());
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace muster
