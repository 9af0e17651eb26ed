#include "common/tables/key_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace muster {

class KeyIndexTest : public ::testing::Test {
 protected:
  // As Clear so often that the next one is the last it can count.
  static void ForgetUntilTheCountEnds(KeyIndex& index) {
    index.size_ = 0;
    index.epoch_ = KeyIndex::kLastEpoch;
  }
};

namespace {

TEST_F(KeyIndexTest, NumbersKeysInOrderOfTheirFirstAppearance) {
  KeyIndex index;
  EXPECT_EQ(index.Find(0), KeyIndex::kMissing);
  EXPECT_EQ(index.FindOrAdd(7), 0u);
  EXPECT_EQ(index.FindOrAdd(0), 1u);
  EXPECT_EQ(index.FindOrAdd(7), 0u);
  EXPECT_EQ(index.Find(0), 1u);
  EXPECT_EQ(index.size(), 2u);
}

TEST_F(KeyIndexTest, KeepsNumbersAsItGrows) {
  KeyIndex index;
  for (uint64_t i = 0; i < 10000; ++i) ASSERT_EQ(index.FindOrAdd(i << 40), i);
  for (uint64_t i = 0; i < 10000; ++i) ASSERT_EQ(index.Find(i << 40), i);
  EXPECT_EQ(index.Find(3), KeyIndex::kMissing);
}

TEST_F(KeyIndexTest, ForgetsAllKeysAtOnce) {
  KeyIndex index;
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(index.Find(5), KeyIndex::kMissing);
    for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(index.FindOrAdd(5 + i), i);
    index.Clear();
    ASSERT_EQ(index.size(), 0u);
  }
}

TEST_F(KeyIndexTest, ForgetsMoreOftenThanItCanCount) {
  constexpr uint64_t kKeys = 40;
  KeyIndex index;
  for (uint64_t key = 0; key < kKeys; ++key) index.FindOrAdd(key);
  ForgetUntilTheCountEnds(index);
  // Around where it counts from the beginning: most buckets are still as they were then.
  for (int i = 0; i < 4; ++i) {
    for (uint64_t key = 0; key < kKeys; ++key) {
      ASSERT_EQ(index.Find(key), KeyIndex::kMissing) << key << " in round " << i;
    }
    ASSERT_EQ(index.FindOrAdd(6), 0u);
    ASSERT_EQ(index.FindOrAdd(6), 0u);
    ASSERT_EQ(index.FindOrAdd(5), 1u);
    ASSERT_EQ(index.Find(6), 0u);
    index.Clear();
  }
}

TEST_F(KeyIndexTest, FindsWhatIsLeftAfterAnyAdditionsAndErasures) {
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
