#include "server/shard/service/blocking_pool.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(BlockingPoolTest, RunsEverythingThatItTook) {
  std::atomic<int> ran{0};
  {
    BlockingPool pool(2, 1000);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.Run([&] { ++ran; }));
  }
  EXPECT_EQ(ran, 100);
}

TEST(BlockingPoolTest, RefusesWhenTooMuchWaits) {
  absl::Notification started, go;
  std::atomic<int> ran{0};
  {
    BlockingPool pool(1, 2);
    ASSERT_TRUE(pool.Run([&] {
      started.Notify();
      go.WaitForNotification();
    }));
    started.WaitForNotification();
    EXPECT_TRUE(pool.Run([&] { ++ran; }));
    EXPECT_TRUE(pool.Run([&] { ++ran; }));
    EXPECT_FALSE(pool.Run([&] { ++ran; }));
    go.Notify();
  }
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace muster
