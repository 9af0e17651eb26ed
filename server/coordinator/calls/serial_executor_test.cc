#include "server/coordinator/calls/serial_executor.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/calls/manual_executor_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(ThreadExecutorTest, RunsInOrderOfPosts) {
  std::vector<int> ran;
  absl::Notification done;
  ThreadExecutor executor;
  for (int i = 0; i < 1000; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  executor.Post([&] { done.Notify(); });
  done.WaitForNotification();
  ASSERT_EQ(ran.size(), 1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[i], i);
}

TEST(ThreadExecutorTest, FinishesWhatIsQueuedBeforeItEnds) {
  int ran = 0;
  {
    ThreadExecutor executor;
    executor.Post([&] { executor.Post([&ran] { ++ran; }); });
    for (int i = 0; i < 10; ++i) executor.Post([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 11);
}

TEST(ManualExecutorTest, RunsWhatIsPostedMeanwhile) {
  std::vector<int> ran;
  ManualExecutor executor;
  executor.Post([&] {
    ran.push_back(1);
    executor.Post([&] { ran.push_back(3); });
  });
  executor.Post([&] { ran.push_back(2); });
  EXPECT_TRUE(ran.empty());
  executor.RunAll();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_TRUE(executor.idle());
}

}  // namespace
}  // namespace muster
