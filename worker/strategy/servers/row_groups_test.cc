#include "worker/strategy/servers/row_groups.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "common/partition/sparse_placement.h"
#include "common/tensor/half.h"
#include "common/tensor/wire_elements.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<uint64_t> Keys(int count) {
  std::vector<uint64_t> keys;
  for (int i = 0; i < count; ++i) keys.push_back(i * 1000003u);
  return keys;
}

TEST(RowGroupsTest, EveryKeyGoesToItsPartitionOnce) {
  const std::vector<uint64_t> keys = Keys(100);
  std::vector<int> seen(keys.size(), 0);
  std::map<uint32_t, uint32_t> chunks;
  for (const RowGroup& group : GroupRows(keys, 4, 7)) {
    EXPECT_EQ(group.chunk, chunks[group.partition]++);
    EXPECT_GE(group.positions.size(), 1);
    EXPECT_LE(group.positions.size(), 7);
    for (int32_t position : group.positions) {
      ++seen[position];
      EXPECT_EQ(SparsePartition(keys[position], 4), group.partition);
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_EQ(chunks.size(), 4);
}

TEST(RowGroupsTest, NoKeysAreNoGroups) { EXPECT_TRUE(GroupRows({}, 4, 7).empty()); }

TEST(RowGroupsTest, PayloadsHoldKeysThenRows) {
  const std::vector<uint64_t> keys = {10, 20, 30};
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  RowGroup group;
  group.positions = {0, 2};
  Payload payload = GatherRows(group, {keys, rows, 2}, RowCoding(), *BufferPool::Create(0));
  ASSERT_EQ(payload.size(), 2 * 8 + 4 * 4);
  std::vector<char> bytes(payload.size());
  payload.CopyTo(bytes.data());
  uint64_t pushed_keys[2];
  float pushed_rows[4];
  std::memcpy(pushed_keys, bytes.data(), 16);
  std::memcpy(pushed_rows, bytes.data() + 16, 16);
  EXPECT_THAT(pushed_keys, ::testing::ElementsAre(10, 30));
  EXPECT_THAT(pushed_rows, ::testing::ElementsAre(1, 2, 5, 6));

  Payload pulled = GatherKeys(group, keys);
  ASSERT_EQ(pulled.size(), 16);
  pulled.CopyTo(pushed_keys);
  EXPECT_THAT(pushed_keys, ::testing::ElementsAre(10, 30));
}

TEST(RowGroupsTest, LongRowsStayWhereTheyAre) {
  constexpr uint32_t kDim = 64;
  const std::vector<uint64_t> keys = {10, 20, 30, 40};
  auto rows = std::make_shared<std::vector<float>>(4 * kDim);
  for (size_t i = 0; i < rows->size(); ++i) (*rows)[i] = static_cast<float>(i);
  const float* const first = rows->data();
  const std::weak_ptr<const void> owner = rows;
  RowGroup group;
  group.positions = {0, 2, 3};
  Payload payload =
      GatherRows(group, {keys, *rows, kDim, rows}, RowCoding(), *BufferPool::Create(0));
  rows.reset();
  // The keys, row 0, and rows 2 and 3, which lie side by side.
  ASSERT_EQ(payload.spans().size(), 3);
  EXPECT_EQ(reinterpret_cast<const float*>(payload.spans()[1].data()), first);
  EXPECT_EQ(payload.spans()[2].size(), 2 * kDim * sizeof(float));
  ASSERT_EQ(payload.size(), 3 * (8 + kDim * sizeof(float)));
  std::vector<std::byte> bytes(payload.size());
  payload.CopyTo(bytes.data());
  uint64_t pushed_keys[3];
  std::vector<float> pushed_rows(3 * kDim);
  std::memcpy(pushed_keys, bytes.data(), 24);
  std::memcpy(pushed_rows.data(), bytes.data() + 24, bytes.size() - 24);
  EXPECT_THAT(pushed_keys, ::testing::ElementsAre(10, 30, 40));
  for (uint32_t i = 0; i < kDim; ++i) {
    EXPECT_EQ(pushed_rows[i], i);
    EXPECT_EQ(pushed_rows[kDim + i], 2 * kDim + i);
    EXPECT_EQ(pushed_rows[2 * kDim + i], 3 * kDim + i);
  }
  EXPECT_FALSE(owner.expired());
  payload = {};
  EXPECT_TRUE(owner.expired());
}

TEST(RowGroupsTest, ScatterTakesSpansThatEndAnywhere) {
  RowGroup group;
  group.positions = {2, 0};
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::byte* bytes = reinterpret_cast<const std::byte*>(values->data());
  for (size_t first = 0; first <= 24; ++first) {
    for (size_t second = first; second <= 24; ++second) {
      Payload payload(
          {{bytes, first}, {bytes + first, second - first}, {bytes + second, 24 - second}}, values);
      std::vector<float> rows(9, 0);
      ScatterRows(group, payload, DType::kF32, 3, absl::MakeSpan(rows));
      EXPECT_THAT(rows, ::testing::ElementsAre(4, 5, 6, 0, 0, 0, 1, 2, 3));
    }
  }
}

class RowGroupsHalfTest : public ::testing::TestWithParam<DType> {
 protected:
  // What the pushed payload says of the group's rows.
  std::vector<float> Pushed(const Payload& payload, size_t count, uint32_t dim) {
    std::vector<float> rows(count * dim);
    ReadElements(GetParam(), payload.Slice(count * 8, count * dim * 2), absl::MakeSpan(rows));
    return rows;
  }
};

TEST_P(RowGroupsHalfTest, PushedRowsDependOnKeyAndDrawAlone) {
  const auto pool = BufferPool::Create(1 << 20);
  const std::vector<uint64_t> keys = {10, 20, 30};
  const std::vector<float> rows(3 * 40, 0.1f);
  RowCoding coding = {GetParam(), Philox(7), 5};
  RowGroup all, last;
  all.positions = {0, 1, 2};
  last.positions = {2};
  const std::vector<float> pushed = Pushed(GatherRows(all, {keys, rows, 40}, coding, *pool), 3, 40);
  for (float value : pushed) EXPECT_NEAR(value, 0.1f, 0.001f);
  const std::vector<float> alone = Pushed(GatherRows(last, {keys, rows, 40}, coding, *pool), 1, 40);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), pushed.begin() + 80));
  EXPECT_FALSE(std::equal(alone.begin(), alone.end(), pushed.begin()));
  ++coding.draw;
  EXPECT_NE(Pushed(GatherRows(last, {keys, rows, 40}, coding, *pool), 1, 40), alone);
}

TEST_P(RowGroupsHalfTest, ScatterTakesSpansThatEndAnywhere) {
  RowGroup group;
  group.positions = {2, 0};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto memory = std::make_shared<std::vector<uint16_t>>(6);
  RoundToHalf(GetParam(), values, memory->data());
  const std::byte* bytes = reinterpret_cast<const std::byte*>(memory->data());
  for (size_t first = 0; first <= 12; ++first) {
    for (size_t second = first; second <= 12; ++second) {
      Payload payload(
          {{bytes, first}, {bytes + first, second - first}, {bytes + second, 12 - second}}, memory);
      std::vector<float> rows(9, 0);
      ScatterRows(group, payload, GetParam(), 3, absl::MakeSpan(rows));
      EXPECT_THAT(rows, ::testing::ElementsAre(4, 5, 6, 0, 0, 0, 1, 2, 3));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowGroupsHalfTest, ::testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace muster
