#include "worker/strategy/dense_runs.h"

#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

DenseLayout Layout(std::vector<std::pair<int64_t, uint32_t>> sizes_and_units, uint64_t block_bytes,
                   uint32_t partitions) {
  std::vector<TensorSpec> tensors;
  for (auto [size, unit] : sizes_and_units) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = std::string(1, 'a' + tensors.size());
    tensor.shape = {size};
    tensor.unit = unit;
  }
  DenseLayout::Options options;
  options.block_bytes = block_bytes;
  options.partitions = partitions;
  return DenseLayout::Create(tensors, options).value();
}

TEST(DenseRunsTest, NeighbouringBlocksOfAUnitShareAMessage) {
  // One partition: blocks of 4 floats at 0..4, 4..8 (unit 0), 8..12 (unit 1).
  DenseLayout layout = Layout({{8, 0}, {4, 1}}, 16, 1);
  auto runs = DenseRunsByUnit(layout, 2, 1 << 20);
  ASSERT_EQ(runs.size(), 2);
  ASSERT_EQ(runs[0].size(), 1);
  EXPECT_EQ(runs[0][0].first_block, 0);
  EXPECT_EQ(runs[0][0].blocks, 2);
  EXPECT_EQ(runs[0][0].elements, 8);
  EXPECT_THAT(runs[0][0].ranges, ElementsAre(Pair(0, 8)));
  ASSERT_EQ(runs[1].size(), 1);
  EXPECT_EQ(runs[1][0].first_block, 2);
  EXPECT_THAT(runs[1][0].ranges, ElementsAre(Pair(8, 12)));
}

TEST(DenseRunsTest, MessagesAreBounded) {
  DenseLayout layout = Layout({{40, 0}}, 16, 1);
  auto runs = DenseRunsByUnit(layout, 1, 48);
  std::vector<uint32_t> blocks;
  for (const DenseRun& run : runs[0]) blocks.push_back(run.blocks);
  EXPECT_THAT(blocks, ElementsAre(3, 3, 3, 1));
  // A block above the bound goes alone.
  EXPECT_EQ(DenseRunsByUnit(layout, 1, 8)[0].size(), 10);
}

TEST(DenseRunsTest, EveryElementIsInExactlyOneRun) {
  DenseLayout layout = Layout({{100, 0}, {7, 1}, {50, 1}, {1, 3}}, 32, 3);
  auto runs = DenseRunsByUnit(layout, 5, 64);
  std::vector<int> seen(layout.elements(), 0);
  std::set<std::pair<uint32_t, uint32_t>> blocks;
  for (const auto& unit : runs) {
    for (const DenseRun& run : unit) {
      uint64_t elements = 0;
      for (auto [begin, end] : run.ranges) {
        elements += end - begin;
        for (uint64_t i = begin; i < end; ++i) ++seen[i];
      }
      EXPECT_EQ(elements, run.elements);
      for (uint32_t b = 0; b < run.blocks; ++b) {
        EXPECT_TRUE(blocks.insert({run.partition, run.first_block + b}).second);
      }
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_EQ(blocks.size(), layout.blocks().size());
  EXPECT_TRUE(runs[2].empty());
  EXPECT_TRUE(runs[4].empty());
}

TEST(DenseRunsTest, GatherAndScatterAreInverse) {
  DenseLayout layout = Layout({{100, 0}, {60, 0}}, 32, 3);
  auto values = std::make_shared<std::vector<float>>(layout.elements());
  std::iota(values->begin(), values->end(), 1.0f);
  std::vector<float> copy(values->size(), 0);
  const auto runs = DenseRunsByUnit(layout, 1, 64);
  for (const DenseRun& run : runs[0]) {
    Payload payload = GatherRun(run, *values, values);
    EXPECT_EQ(payload.size(), run.elements * sizeof(float));
    // No copy was made.
    EXPECT_EQ(reinterpret_cast<const float*>(payload.pieces()[0].data()),
              values->data() + run.ranges[0].first);
    ScatterRun(run, payload, DType::kF32, absl::MakeSpan(copy));
  }
  EXPECT_EQ(copy, *values);
}

}  // namespace
}  // namespace muster
