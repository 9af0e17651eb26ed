#include "common/tables/key_index.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(KeyIndexTest, NumbersKeysInOrderOfTheirFirstAppearance) {
  KeyIndex index;
  EXPECT_EQ(index.Find(0), KeyIndex::kMissing);
  EXPECT_EQ(index.FindOrAdd(7), 0u);
  EXPECT_EQ(index.FindOrAdd(0), 1u);
  EXPECT_EQ(index.FindOrAdd(7), 0u);
  EXPECT_EQ(index.Find(0), 1u);
  EXPECT_EQ(index.size(), 2u);
}

TEST(KeyIndexTest, KeepsNumbersAsItGrows) {
  KeyIndex index;
  for (uint64_t i = 0; i < 10000; ++i) ASSERT_EQ(index.FindOrAdd(i << 40), i);
  for (uint64_t i = 0; i < 10000; ++i) ASSERT_EQ(index.Find(i << 40), i);
  EXPECT_EQ(index.Find(3), KeyIndex::kMissing);
}

TEST(KeyIndexTest, ForgetsAllKeysAtOnce) {
  KeyIndex index;
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(index.Find(5), KeyIndex::kMissing);
    for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(index.FindOrAdd(5 + i), i);
    index.Clear();
    ASSERT_EQ(index.size(), 0u);
  }
}

}  // namespace
}  // namespace muster
