#include "common/base/buffer_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

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

TEST(BufferPoolTest, ArraysOfASlabAreApart) {
  const auto pool = BufferPool::Create(64 << 20);
  constexpr size_t kFloats = size_t{5} << 16;  // 1.25 MiB: no divisor of a slab.
  std::vector<std::shared_ptr<float>> arrays;
  // More than two slabs hold.
  for (int i = 0; i < 20; ++i) {
    arrays.push_back(pool->Take(kFloats));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arrays.back().get()) % 64, 0u);
    std::fill_n(arrays.back().get(), kFloats, static_cast<float>(i));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(std::count(arrays[i].get(), arrays[i].get() + kFloats, static_cast<float>(i)),
              static_cast<int64_t>(kFloats));
  }
}

TEST(BufferPoolTest, ASlabGoesWithItsLastArray) {
  constexpr size_t kFloats = size_t{1} << 18;
  auto pool = BufferPool::Create(0);
  std::shared_ptr<float> kept;
  for (int i = 0; i < 50; ++i) {
    // All others are freed at once; what is kept stays as it is.
    std::shared_ptr<float> array = pool->Take(kFloats);
    std::fill_n(array.get(), kFloats, static_cast<float>(i));
    if (i == 3) kept = std::move(array);
  }
  EXPECT_EQ(pool->kept_bytes(), 0u);
  pool.reset();
  EXPECT_EQ(std::count(kept.get(), kept.get() + kFloats, 3.0f), static_cast<int64_t>(kFloats));
}

size_t ResidentPages(float* array, size_t bytes) {
  std::vector<unsigned char> resident(bytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(mincore(array, bytes, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(),
                       [](unsigned char page) { return page & 1; });
}

TEST(BufferPoolTest, WhatIsNotKeptIsFreedThoughItsSlabLives) {
  constexpr size_t kBytes = size_t{256} << 10;
  constexpr size_t kFloats = kBytes / sizeof(float);
  const auto pool = BufferPool::Create(kBytes);
  std::vector<std::shared_ptr<float>> arrays;
  std::vector<float*> places;
  for (int i = 0; i < 8; ++i) {
    arrays.push_back(pool->Take(kFloats));
    places.push_back(arrays.back().get());
    std::fill_n(places.back(), kFloats, 1.0f);
  }
  // One lives, one is kept, and six are on top.
  arrays.resize(1);
  EXPECT_EQ(pool->kept_bytes(), kBytes);
  size_t pages = 0;
  for (float* const place : places) pages += ResidentPages(place, kBytes);
  EXPECT_EQ(pages, 2 * kBytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(std::count(places[0], places[0] + kFloats, 1.0f), static_cast<int64_t>(kFloats));
}

TEST(BufferPoolTest, PlacesOfFreedArraysAreHandedOutAgain) {
  constexpr size_t kFloats = size_t{64} << 10;
  const auto pool = BufferPool::Create(0);
  const std::shared_ptr<float> lives = pool->Take(kFloats);
  std::set<float*> places;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<float>> arrays;
    // Over the first slab's end, so that a second one comes and goes.
    for (int i = 0; i < 11; ++i) arrays.push_back(pool->Take(kFloats));
    std::set<float*> now = {lives.get()};
    for (const auto& array : arrays) now.insert(array.get());
    // No place has two arrays.
    EXPECT_EQ(now.size(), 12u);
    places.insert(now.begin(), now.end());
  }
  // Two slabs.
  EXPECT_LE(places.size(), 16u);
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
