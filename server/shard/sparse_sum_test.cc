#include "server/shard/sparse_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/shard/test_exchange.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SparseSumTest : public testing::Test {
 protected:
  SparseChunk Chunk(std::vector<uint64_t> keys, std::vector<float> rows) {
    return *ReadSparseChunk(KeysAndRows(keys, rows), keys.size(), 1, DType::kF32, *pool_);
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
  SparseSum sum(1);
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
  SparseSum sum(1);
  const SparseChunk chunk = Chunk({9, 8}, {1, 2});
  sum.Add(0, 0, chunk);
  sum.Finish();
  EXPECT_THAT(sum.keys(), ElementsAre(9, 8));
  EXPECT_THAT(Sums(sum), ElementsAre(1, 2));
  EXPECT_EQ(sum.sums()[1], &chunk.rows[1]);
}

TEST_F(SparseSumTest, StartsAgainEmpty) {
  SparseSum sum(1);
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

TEST_F(SparseSumTest, AChunkOfAnotherLengthIsRefused) {
  const Payload payload = KeysAndRows({1, 2}, {1, 2});
  EXPECT_TRUE(ReadSparseChunk(payload, 2, 1, DType::kF32, *pool_).ok());
  for (const auto& [rows, dim] :
       {std::pair<uint64_t, uint32_t>{1, 1},
        {2, 2},
        {4, 0},
        // The product with the bytes of a row overflows to the true length.
        {(uint64_t{1} << 62) + 2, 2}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(ReadSparseChunk(payload, rows, dim, DType::kF32, *pool_).status()))
        << rows << " rows of " << dim;
  }
}

}  // namespace
}  // namespace muster
