#include "common/tables/row_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace muster {
namespace {

TEST(RowMemoryTest, RowsStayWhereTheyAre) {
  RowMemory memory(60);
  std::map<uint64_t, RowMemory::Row*> rows;
  for (uint64_t key = 0; key < 30000; ++key) {
    RowMemory::Row& row = memory.At(memory.Add(key << 20));
    row.values()[0] = static_cast<float>(key);
    row.values()[59] = static_cast<float>(key + 1);
    rows[key << 20] = &row;
  }
  EXPECT_EQ(memory.rows(), 30000u);
  EXPECT_GE(memory.memory_bytes(), 30000u * (60 * 4 + 32));
  for (const auto& [key, row] : rows) {
    ASSERT_EQ(&memory.At(memory.Find(key)), row);
    ASSERT_EQ(row->key, key);
    ASSERT_EQ(row->values()[0], static_cast<float>(key >> 20));
    ASSERT_EQ(row->values()[59], static_cast<float>((key >> 20) + 1));
  }
}

TEST(RowMemoryTest, UsesThePlacesOfErasedRowsAgain) {
  RowMemory memory(300);
  for (uint64_t key = 0; key < 5000; ++key) memory.Add(key);
  const size_t bytes = memory.memory_bytes();
  for (int round = 1; round < 5; ++round) {
    for (uint64_t key = 0; key < 4000; ++key) memory.Erase(memory.Find(key));
    EXPECT_EQ(memory.rows(), 1000u);
    for (uint64_t key = 0; key < 4000; ++key) memory.Add(key);
  }
  // But for the list of free places.
  EXPECT_LT(memory.memory_bytes(), bytes + 64 * 1024);
}

TEST(RowMemoryTest, NextVisitsEachRowOnce) {
  std::mt19937_64 random(1);
  for (const uint32_t width : {0, 1, 700, 200000}) {
    RowMemory memory(width);
    std::map<uint64_t, int> visits;
    const uint64_t keys = width > 1000 ? 50 : 2000;
    for (uint64_t key = 0; key < keys; ++key) memory.Add(key);
    for (uint64_t key = 0; key < keys; ++key) {
      if (random() % 3 == 0) {
        memory.Erase(memory.Find(key));
      } else {
        visits[key] = 0;
      }
    }
    for (uint32_t at = memory.Next(0); at != RowMemory::kMissing; at = memory.Next(at + 1)) {
      ++visits[memory.At(at).key];
    }
    ASSERT_EQ(visits.size(), memory.rows());
    for (const auto& [key, count] : visits) ASSERT_EQ(count, 1) << key;
  }
}

TEST(RowMemoryTest, EmptyHasNoRows) {
  const RowMemory memory(4);
  EXPECT_EQ(memory.Next(0), RowMemory::kMissing);
  EXPECT_EQ(memory.Find(1), RowMemory::kMissing);
}

}  // namespace
}  // namespace muster
