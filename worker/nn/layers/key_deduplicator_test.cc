#include "worker/nn/layers/key_deduplicator.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KeyDeduplicatorTest, NumbersKeysInOrderOfFirstUse) {
  KeyDeduplicator deduplicator;
  std::vector<uint64_t> keys;
  std::vector<int32_t> inverse;
  deduplicator.Build({7, 0, 7, ~uint64_t{0}, 0}, keys, inverse);
  EXPECT_THAT(keys, ElementsAre(7, 0, ~uint64_t{0}));
  EXPECT_THAT(inverse, ElementsAre(0, 1, 0, 2, 1));
}

TEST(KeyDeduplicatorTest, ForgetsTheBatchBefore) {
  KeyDeduplicator deduplicator;
  std::vector<uint64_t> keys;
  std::vector<int32_t> inverse;
  deduplicator.Build({1, 2, 3, 4, 5}, keys, inverse);
  deduplicator.Build({5, 1}, keys, inverse);
  EXPECT_THAT(keys, ElementsAre(5, 1));
  EXPECT_THAT(inverse, ElementsAre(0, 1));
  deduplicator.Build({}, keys, inverse);
  EXPECT_THAT(keys, IsEmpty());
  EXPECT_THAT(inverse, IsEmpty());
}

TEST(KeyDeduplicatorTest, ManyKeysOfOnePattern) {
  // Multiples of a power of two, each used twice: a bare mask would put them all in one slot.
  std::vector<uint64_t> uses;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 20000; ++i) uses.push_back(i << 40);
  }
  KeyDeduplicator deduplicator;
  std::vector<uint64_t> keys;
  std::vector<int32_t> inverse;
  deduplicator.Build(uses, keys, inverse);
  ASSERT_EQ(keys.size(), 20000);
  for (size_t i = 0; i < uses.size(); ++i) ASSERT_EQ(keys[inverse[i]], uses[i]);
}

}  // namespace
}  // namespace muster
