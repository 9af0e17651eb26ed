#include "server/shard/calls/sparse_chunk.h"

#include <array>
#include <cstring>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

class SparseChunkTest : public ::testing::Test {
 protected:
  static std::vector<float> Values(const SparseChunk& chunk, uint32_t dim) {
    std::vector<float> values;
    for (const float* row : chunk.rows) values.insert(values.end(), row, row + dim);
    return values;
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
};

TEST_F(SparseChunkTest, RowsLieWhereTheyCame) {
  const Payload payload = KeysAndRows({7, 8}, {1, 2, 3, 4});
  const SparseChunk chunk = *ReadSparseChunk(payload, 2, 2, DType::kF32, *pool_);
  EXPECT_THAT(chunk.keys, ElementsAre(7, 8));
  EXPECT_THAT(Values(chunk, 2), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(chunk.bytes, payload.size() + 2 * sizeof(const float*));
  const std::byte* const begin = payload.spans()[0].data();
  EXPECT_EQ(reinterpret_cast<const std::byte*>(chunk.rows[0]), begin + 16);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(chunk.rows[1]), begin + 24);
  EXPECT_NE(reinterpret_cast<const std::byte*>(chunk.keys.data()), begin);
}

TEST_F(SparseChunkTest, KeepsWhatTheRowsLieIn) {
  SparseChunk chunk;
  std::weak_ptr<const void> owner;
  {
    const Payload payload = KeysAndRows({7}, {1, 2});
    owner = payload.owner();
    chunk = *ReadSparseChunk(payload, 1, 2, DType::kF32, *pool_);
  }
  EXPECT_FALSE(owner.expired());
  EXPECT_THAT(Values(chunk, 2), ElementsAre(1, 2));
  chunk = {};
  EXPECT_TRUE(owner.expired());
}

// Three spans that end anywhere, also within keys, rows and elements, at every alignment.
TEST_F(SparseChunkTest, TakesSpansThatEndAnywhere) {
  constexpr uint64_t kKeys[] = {7, 8, 9};
  std::vector<float> values(9);
  std::iota(values.begin(), values.end(), 1.0f);
  const Payload whole = KeysAndRows(kKeys, values);
  const size_t bytes = whole.size();
  for (size_t shift = 0; shift < sizeof(float); ++shift) {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes + shift);
    whole.CopyTo(memory->data() + shift);
    const std::byte* const at = memory->data() + shift;
    for (size_t first = 0; first <= bytes; ++first) {
      for (size_t second = first; second <= bytes; ++second) {
        const Payload payload(
            {{at, first}, {at + first, second - first}, {at + second, bytes - second}}, memory);
        const SparseChunk chunk = *ReadSparseChunk(payload, 3, 3, DType::kF32, *pool_);
        ASSERT_THAT(chunk.keys, ElementsAre(7, 8, 9));
        ASSERT_EQ(Values(chunk, 3), values) << shift << ", " << first << ", " << second;
      }
    }
  }
}

TEST_F(SparseChunkTest, ARowMayBeInManySpans) {
  const Payload whole = KeysAndRows({7, 8}, {1, 2, 3, 4, 5, 6});
  const std::byte* const at = whole.spans()[0].data();
  std::vector<Payload::Span> spans;
  for (size_t i = 0; i < whole.size(); i += 4) spans.emplace_back(at + i, 4);
  const Payload payload(spans, whole.owner());
  EXPECT_THAT(Values(*ReadSparseChunk(payload, 2, 3, DType::kF32, *pool_), 3),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(SparseChunkTest, HalvesAreWidened) {
  // 1 and -2 as bf16.
  const std::array<uint16_t, 2> halves = {0x3f80, 0xc000};
  std::vector<uint64_t> words = {7, 0};
  std::memcpy(&words[1], halves.data(), sizeof(halves));
  const Payload payload = Payload::Of(std::move(words)).Slice(0, 12);
  const SparseChunk chunk = *ReadSparseChunk(payload, 1, 2, DType::kBf16, *pool_);
  EXPECT_THAT(chunk.keys, ElementsAre(7));
  EXPECT_THAT(Values(chunk, 2), ElementsAre(1, -2));
}

TEST_F(SparseChunkTest, APullHasKeysAlone) {
  const SparseChunk chunk = *ReadSparseChunk(KeysAndRows({7, 8}, {}), 2, 0, DType::kF32, *pool_);
  EXPECT_THAT(chunk.keys, ElementsAre(7, 8));
  EXPECT_TRUE(chunk.rows.empty());
  EXPECT_EQ(chunk.bytes, 16);
  EXPECT_TRUE(ReadSparseChunk(Payload(), 0, 0, DType::kF32, *pool_).ok());
  EXPECT_TRUE(ReadSparseChunk(Payload(), 0, 3, DType::kF32, *pool_).ok());
}

TEST_F(SparseChunkTest, AnotherLengthIsRefused) {
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
