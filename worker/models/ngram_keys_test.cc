#include "worker/models/ngram_keys.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<uint64_t> Keys(const std::vector<int32_t>& tokens, int orders, uint64_t buckets = 0) {
  std::vector<uint64_t> keys(orders);
  NgramKeys(tokens, buckets, absl::MakeSpan(keys));
  return keys;
}

TEST(NgramKeysTest, OrderDependsOnItsTokensOnly) {
  const std::vector<uint64_t> a = Keys({9, 1, 2, 3}, 4);
  const std::vector<uint64_t> b = Keys({8, 1, 2, 3}, 4);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[2], b[2]);
  EXPECT_NE(a[3], b[3]);
}

TEST(NgramKeysTest, OrdersAndPlacesDiffer) {
  EXPECT_NE(Keys({7, 7}, 2)[0], Keys({7, 7}, 2)[1]);
  EXPECT_NE(Keys({1, 2}, 2)[1], Keys({2, 1}, 2)[1]);
}

TEST(NgramKeysTest, StartOfDataIsASymbolOfItsOwn) {
  std::set<uint64_t> keys;
  for (int32_t token = -1; token < 256; ++token) keys.insert(Keys({token}, 1)[0]);
  EXPECT_EQ(keys.size(), 257);
}

TEST(NgramKeysTest, AllPairsOfTokensDiffer) {
  std::set<uint64_t> keys;
  for (int32_t a = -1; a < 256; ++a) {
    for (int32_t b = -1; b < 256; ++b) {
      for (uint64_t key : Keys({a, b}, 2)) keys.insert(key);
    }
  }
  EXPECT_EQ(keys.size(), 257 + 257 * 257);
}

TEST(NgramKeysTest, BucketsOfOrdersAreApartAndEvenlyUsed) {
  constexpr uint64_t kBuckets = 10;
  std::vector<int> used(3 * kBuckets);
  for (int32_t token = 0; token < 1000; ++token) {
    const std::vector<uint64_t> keys =
        Keys({token % 10, token / 10 % 10, token / 100}, 3, kBuckets);
    for (uint64_t o = 0; o < 3; ++o) {
      ASSERT_GE(keys[o], o * kBuckets);
      ASSERT_LT(keys[o], (o + 1) * kBuckets);
      ++used[keys[o]];
    }
  }
  // 1000 different contexts of order 3 in 10 buckets: 100 each, with a standard deviation of 10.
  for (uint64_t bucket = 2 * kBuckets; bucket < 3 * kBuckets; ++bucket) {
    EXPECT_NEAR(used[bucket], 100, 45);
  }
}

// Checkpoints hold rows by these keys.
TEST(NgramKeysTest, ValuesAreStable) {
  EXPECT_EQ(
      Keys({-1, 'a', 'b'}, 3),
      std::vector<uint64_t>({10331641985643913886u, 14815083892857346467u, 15953080221882138076u}));
}

}  // namespace
}  // namespace muster
