#include "common/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace muster {
namespace {

TEST(BufferPoolTest, GivesBackWhatReturned) {
  const auto pool = BufferPool::Create(1 << 20);
  const float* first = pool->Take(1000).get();
  EXPECT_GT(pool->kept_bytes(), 0u);
  EXPECT_EQ(pool->Take(1000).get(), first);
}

TEST(BufferPoolTest, SharesArraysAmongNearSizes) {
  const auto pool = BufferPool::Create(1 << 20);
  const float* first = pool->Take(1000).get();
  EXPECT_EQ(pool->Take(1010).get(), first);
}

TEST(BufferPoolTest, KeepsNoMoreThanItMay) {
  const auto pool = BufferPool::Create(8192);
  { const auto kept = pool->Take(1024), freed = pool->Take(2048); }
  EXPECT_LE(pool->kept_bytes(), 8192u);
  EXPECT_GT(pool->kept_bytes(), 0u);
}

TEST(BufferPoolTest, AlignsAllSizes) {
  const auto pool = BufferPool::Create(0);
  for (size_t floats : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 18}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool->Take(floats).get()) % 64, 0u) << floats;
  }
}

TEST(BufferPoolTest, ArraysMayOutliveThePoolAndReturnOnAnyThread) {
  auto pool = BufferPool::Create(1 << 20);
  auto array = pool->Take(10);
  std::thread([moved = pool->Take(20)] { moved.get()[19] = 1; }).join();
  EXPECT_GT(pool->kept_bytes(), 0u);
  pool.reset();
  array.get()[9] = 1;
}

}  // namespace
}  // namespace muster
