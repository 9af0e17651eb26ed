#include "worker/strategy/row_groups.h"

#include <cstring>
#include <map>

#include "common/partition/sparse_placement.h"
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
  Payload payload = GatherRows(group, keys, rows, 2);
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

TEST(RowGroupsTest, ScatterTakesPiecesThatEndAnywhere) {
  RowGroup group;
  group.positions = {2, 0};
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::byte* bytes = reinterpret_cast<const std::byte*>(values->data());
  for (size_t first = 0; first <= 24; ++first) {
    for (size_t second = first; second <= 24; ++second) {
      Payload payload(
          {{bytes, first}, {bytes + first, second - first}, {bytes + second, 24 - second}}, values);
      std::vector<float> rows(9, 0);
      ScatterRows(group, payload, 3, absl::MakeSpan(rows));
      EXPECT_THAT(rows, ::testing::ElementsAre(4, 5, 6, 0, 0, 0, 1, 2, 3));
    }
  }
}

}  // namespace
}  // namespace muster
