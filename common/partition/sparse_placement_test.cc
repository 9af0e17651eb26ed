#include "common/partition/sparse_placement.h"

#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SparsePlacementTest, StaysBelowThePartitions) {
  for (uint32_t partitions : {1u, 2u, 7u, 65536u}) {
    for (uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
      EXPECT_LT(SparsePartition(key, partitions), partitions);
    }
  }
}

// Keys in steps, as ids of fields or aligned addresses are, would all meet in one partition under a
// modulo.
TEST(SparsePlacementTest, SpreadsPatternsEvenly) {
  constexpr uint32_t kPartitions = 8;
  constexpr int kKeys = 80000;
  for (uint64_t stride : {uint64_t{1}, uint64_t{8}, uint64_t{1024}, uint64_t{1} << 40}) {
    std::vector<int> counts(kPartitions);
    for (uint64_t i = 0; i < kKeys; ++i) ++counts[SparsePartition(i * stride, kPartitions)];
    for (int count : counts) EXPECT_NEAR(count, kKeys / kPartitions, 500) << "stride " << stride;
  }
}

TEST(SparsePlacementTest, AShardHasWholePartitions) {
  for (uint64_t key = 0; key < 1000; ++key) {
    EXPECT_EQ(SparseShard(key, 8, 3), SparsePartition(key, 8) % 3);
    EXPECT_EQ(SparseShard(key, 8, 1), 0);
  }
}

// Stored keys lie where this puts them: the values must never change.
TEST(SparsePlacementTest, IsStable) {
  EXPECT_EQ(SparsePartition(0, 1000), 0);
  EXPECT_EQ(SparsePartition(1, 1000), 338);
  EXPECT_EQ(SparsePartition(0xdeadbeef, 1000), 304);
}

}  // namespace
}  // namespace muster
