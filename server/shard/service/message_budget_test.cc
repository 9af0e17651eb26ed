#include "server/shard/service/message_budget.h"

#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MessageBudgetTest, GreedyConnectionsLeaveRoomToThoseWhoComeLater) {
  MessageBudget budget(1024 * kMiB);
  std::vector<int64_t> held(7);
  for (bool more = true; more;) {
    more = false;
    for (int64_t& each : held) {
      if (!budget.TryTake(8 * kMiB, each)) continue;
      each += 8 * kMiB;
      more = true;
    }
  }
  for (const int64_t each : held) EXPECT_GE(each, 112 * kMiB);
  EXPECT_GE(budget.left(), 112 * kMiB);
  EXPECT_TRUE(budget.TryTake(64 * kMiB, 0));
}

TEST(MessageBudgetTest, NothingLongFitsBeyondTheLimitAndShortMessagesAlwaysDo) {
  MessageBudget budget(64 * kMiB);
  EXPECT_FALSE(budget.TryTake(64 * kMiB + 1, 0));
  EXPECT_TRUE(budget.TryTake(64 * kMiB, 0));
  EXPECT_FALSE(budget.TryTake(MessageBudget::kShortBytes + 1, 0));
  EXPECT_TRUE(budget.TryTake(MessageBudget::kShortBytes, 64 * kMiB));
  EXPECT_EQ(budget.used(), 64 * kMiB + MessageBudget::kShortBytes);
}

TEST(MessageBudgetTest, ThoseWhoWaitTryAgainInTheirOrder) {
  MessageBudget budget(64 * kMiB);
  ASSERT_TRUE(budget.TryTake(64 * kMiB, 0));
  std::vector<int> order;
  budget.Await([&] { order.push_back(1); });
  budget.Await([&] {
    order.push_back(2);
    // One that finds no room waits again.
    budget.Await([&] { order.push_back(3); });
  });
  EXPECT_TRUE(budget.has_waiters());
  budget.Return(kMiB);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  budget.Return(kMiB);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(budget.has_waiters());
  EXPECT_EQ(budget.used(), 62 * kMiB);
}

}  // namespace
}  // namespace muster
