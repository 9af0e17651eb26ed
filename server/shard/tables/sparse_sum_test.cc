#include "server/shard/tables/sparse_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SparseSumTest : public testing::Test {
 protected:
  SparseChunk Chunk(std::vector<uint64_t> keys, std::vector<float> rows) {
    return *ReadSparseChunk(KeysAndRows(keys, rows), keys.size(), 1, DType::kF32, *pool_);
  }

  // Of dim 1.
  static std::vector<float> Rows(const SparseChunk& chunk) {
    std::vector<float> rows;
    for (const float* row : chunk.rows) rows.push_back(*row);
    return rows;
  }

  static std::vector<float> Sums(const SparseSum& sum) {
    std::vector<float> sums;
    for (const float* row : sum.sums()) sums.push_back(*row);
    return sums;
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
};

TEST_F(SparseSumTest, SumsPerKeyInOrderOfSlotAndChunk) {
  // In f32, 1e8 + 1 - 1e8 is 0 and 1e8 - 1e8 + 1 is 1: the order shows.
  SparseSum sum(1, *pool_);
  sum.Add(2, 0, Chunk({5}, {1}));
  sum.Add(1, 0, Chunk({5}, {-1e8}));
  sum.Add(0, 1, Chunk({5, 6}, {0, 4}));
  sum.Add(0, 0, Chunk({7, 5}, {3, 1e8}));
  sum.Finish();
  EXPECT_THAT(sum.keys(), ElementsAre(7, 5, 6));
  EXPECT_THAT(Sums(sum), ElementsAre(3, 1, 4));
  EXPECT_EQ(sum.SquaredNorm(), 26);
}

TEST_F(SparseSumTest, OneChunkIsItsOwnSum) {
  SparseSum sum(1, *pool_);
  const SparseChunk chunk = Chunk({9, 8}, {1, 2});
  sum.Add(0, 0, chunk);
  sum.Finish();
  EXPECT_THAT(sum.keys(), ElementsAre(9, 8));
  EXPECT_THAT(Sums(sum), ElementsAre(1, 2));
  EXPECT_EQ(sum.sums()[1], chunk.rows[1]);
}

TEST_F(SparseSumTest, RowsThatCameAreNotWrittenTo) {
  SparseSum sum(1, *pool_);
  const SparseChunk first = Chunk({9, 8, 7}, {1, 2, 3});
  const SparseChunk second = Chunk({7, 8}, {10, 20});
  const SparseChunk third = Chunk({7, 9}, {100, 200});
  sum.Add(0, 0, first);
  sum.Add(0, 1, second);
  const size_t before = sum.memory_bytes();
  sum.Add(0, 2, third);
  sum.Finish();
  EXPECT_THAT(sum.keys(), ElementsAre(9, 8, 7));
  EXPECT_THAT(Sums(sum), ElementsAre(201, 22, 113));
  EXPECT_GT(sum.memory_bytes(), before);
  EXPECT_THAT(Rows(first), ElementsAre(1, 2, 3));
  EXPECT_THAT(Rows(second), ElementsAre(10, 20));
  EXPECT_THAT(Rows(third), ElementsAre(100, 200));
}

TEST_F(SparseSumTest, AKeyMayRepeatWithinAChunk) {
  SparseSum sum(1, *pool_);
  const SparseChunk chunk = Chunk({9, 8, 9, 9}, {1, 2, 4, 8});
  sum.Add(0, 0, chunk);
  sum.Finish();
  EXPECT_THAT(sum.keys(), ElementsAre(9, 8));
  EXPECT_THAT(Sums(sum), ElementsAre(13, 2));
  EXPECT_THAT(Rows(chunk), ElementsAre(1, 2, 4, 8));
}

TEST_F(SparseSumTest, MoreSumsThanOneArrayHolds) {
  SparseSum sum(1, *pool_);
  std::vector<uint64_t> keys(1000);
  std::vector<float> rows(1000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = rows[i] = i;
  for (uint32_t slot = 0; slot < 3; ++slot) sum.Add(slot, 0, Chunk(keys, rows));
  for (int clock = 0; clock < 2; ++clock) {
    sum.Finish();
    ASSERT_EQ(sum.keys().size(), clock == 0 ? 1000 : 0);
    for (size_t i = 0; i < sum.keys().size(); ++i) EXPECT_EQ(*sum.sums()[i], 3.0f * i);
    sum.Clear();
  }
}

TEST_F(SparseSumTest, StartsAgainEmpty) {
  SparseSum sum(1, *pool_);
  sum.Add(0, 0, Chunk({5}, {1}));
  EXPECT_GT(sum.memory_bytes(), 0u);
  sum.Finish();
  sum.Clear();
  sum.Finish();
  EXPECT_THAT(sum.keys(), IsEmpty());
  sum.Clear();
  sum.Add(0, 0, Chunk({5}, {2}));
  sum.Finish();
  EXPECT_THAT(Sums(sum), ElementsAre(2));
}

}  // namespace
}  // namespace muster
