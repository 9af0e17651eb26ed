#include "common/tables/key_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

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

TEST(KeyIndexTest, ForgetsMoreOftenThanItCanCount) {
  KeyIndex index;
  index.FindOrAdd(5);
  for (uint64_t i = 0; i < uint64_t{1} << 29; ++i) {
    index.Clear();
    // As often as is worth the time, and around where it counts from the beginning.
    if (i % (1 << 20) < 4) {
      ASSERT_EQ(index.Find(5), KeyIndex::kMissing);
    }
  }
  EXPECT_EQ(index.FindOrAdd(6), 0u);
  EXPECT_EQ(index.FindOrAdd(5), 1u);
}

TEST(KeyIndexTest, FindsWhatIsLeftAfterAnyAdditionsAndErasures) {
  std::mt19937_64 random(1);
  KeyIndex index;
  std::unordered_map<uint64_t, uint32_t> expected;
  for (uint32_t i = 0; i < 200000; ++i) {
    // Few keys, so that runs of neighbours form and are cut.
    const uint64_t key = random() % 600;
    const auto known = expected.find(key);
    ASSERT_EQ(index.Find(key), known == expected.end() ? KeyIndex::kMissing : known->second);
    if (known == expected.end()) {
      index.Add(key, i);
      expected[key] = i;
    } else {
      index.Erase(key);
      expected.erase(known);
    }
    ASSERT_EQ(index.size(), expected.size());
  }
}

}  // namespace
}  // namespace muster
