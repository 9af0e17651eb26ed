#include "server/coordinator/calls/serial_executor.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
    for (int i = 0; i < 10; ++i) executor.PostAhead([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 21);
}

TEST(ThreadExecutorTest, NeitherKindOfWorkKeepsTheOtherOut) {
  std::vector<std::string> ran;
  {
    ThreadExecutor executor;
    absl::Notification began, posted;
    executor.Post([&] {
      began.Notify();
      posted.WaitForNotification();
    });
    began.WaitForNotification();
    for (int i = 1; i <= 6; ++i) executor.Post([&ran, i] { ran.push_back(absl::StrCat("p", i)); });
    for (int i = 1; i <= 3; ++i) {
      executor.PostAhead([&ran, i] { ran.push_back(absl::StrCat("a", i)); });
    }
    posted.Notify();
  }
  EXPECT_THAT(ran, ElementsAre("a1", "p1", "a2", "p2", "a3", "p3", "p4", "p5", "p6"));
}

TEST(ThreadExecutorTest, WorkAheadRunsAtOnceIfThereIsNoOther) {
  std::vector<int> ran;
  {
    ThreadExecutor executor;
    absl::Notification posted;
    executor.PostAhead([&] { posted.WaitForNotification(); });
    for (int i = 1; i <= 3; ++i) executor.PostAhead([&ran, i] { ran.push_back(i); });
    posted.Notify();
  }
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
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
