#include "server/shard/resources/memory_budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace muster {
namespace {

TEST(MemoryBudgetTest, SharesOneLimit) {
  MemoryBudget budget(100);
  MemoryShare first(budget);
  auto second = std::make_unique<MemoryShare>(budget);
  EXPECT_TRUE(first.TryGrow(60));
  EXPECT_FALSE(second->TryGrow(41));
  EXPECT_TRUE(second->TryGrow(40));
  EXPECT_EQ(budget.used(), 100u);
  second.reset();
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_FALSE(first.TryGrow(std::numeric_limits<uint64_t>::max()));
}

TEST(MemoryBudgetTest, WhatIsInUseCountsOverTheLimit) {
  MemoryBudget budget(100);
  MemoryShare share(budget);
  share.Set(150);
  EXPECT_EQ(budget.used(), 150u);
  EXPECT_FALSE(share.TryGrow(0));
  share.Set(10);
  EXPECT_EQ(budget.used(), 10u);
  EXPECT_TRUE(share.TryGrow(90));
}

}  // namespace
}  // namespace muster
