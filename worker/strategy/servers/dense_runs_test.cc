#include "worker/strategy/servers/dense_runs.h"

#include <set>

#include "common/partition/served_layout.h"
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
  EXPECT_EQ(runs[0][0].begin, 0);
  EXPECT_EQ(runs[0][0].end, 8);
  ASSERT_EQ(runs[1].size(), 1);
  EXPECT_EQ(runs[1][0].first_block, 2);
  EXPECT_EQ(runs[1][0].begin, 8);
  EXPECT_EQ(runs[1][0].end, 12);
}

TEST(DenseRunsTest, BlocksWithOthersBetweenThemGoAlone) {
  // Dealt in turn: 0..4 and 8..12 to partition 0, the others to 1.
  DenseLayout layout = Layout({{16, 0}}, 16, 2);
  const auto runs = DenseRunsByUnit(layout, 1, 1 << 20);
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (const DenseRun& run : runs[0]) {
    EXPECT_EQ(run.elements(), 4);
    EXPECT_EQ(run.blocks, 1);
    places.emplace_back(run.partition, run.first_block);
  }
  EXPECT_THAT(places, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(0, 1), Pair(1, 1)));
}

TEST(DenseRunsTest, WhatALowerTensorRankPushesGoesAlone) {
  TensorSpec divided = {.name = "a", .shape = {8}};
  divided.placement = {.kind = Placement::Kind::kShard, .dimension = 0, .sections = {{8, 8}}};
  const TensorSpec common = {.name = "b", .shape = {4}};
  // Blocks of 4 floats: rank 0's half of a and b, then rank 1's half of a.
  const ServedTensors served =
      ServeTensors({divided, common}, {Mesh({.tensor = 2})}, {.block_bytes = 16, .partitions = 1})
          .value();
  const auto first = DenseRunsByUnit(LayoutOfRank(served, 0), 1, 1 << 20);
  ASSERT_EQ(first[0].size(), 1);
  EXPECT_EQ(first[0][0].blocks, 2);
  EXPECT_FALSE(first[0][0].repeated);
  const auto second = DenseRunsByUnit(LayoutOfRank(served, 1), 1, 1 << 20);
  ASSERT_EQ(second[0].size(), 2);
  EXPECT_EQ(second[0][0].first_block, 2);
  EXPECT_EQ(second[0][0].end, 4);
  EXPECT_FALSE(second[0][0].repeated);
  EXPECT_EQ(second[0][1].first_block, 1);
  EXPECT_EQ(second[0][1].end, 8);
  EXPECT_TRUE(second[0][1].repeated);
}

TEST(DenseRunsTest, AnOptimizerGroupEndsAMessage) {
  const std::vector<TensorSpec> tensors = {{.name = "a", .shape = {8}},
                                           {.name = "v", .shape = {3}, .weight_decay = false},
                                           {.name = "signs", .shape = {2}, .sign_rate = 1},
                                           {.name = "b", .shape = {4}, .unit = 1}};
  const DenseLayout layout =
      DenseLayout::Create(tensors, {.block_bytes = 16, .partitions = 1}).value();
  const auto runs = DenseRunsByUnit(layout, 2, 1 << 20);
  ASSERT_EQ(runs[0].size(), 3);
  EXPECT_EQ(runs[0][0].end, 8);
  EXPECT_EQ(runs[0][1].begin, 8);
  EXPECT_EQ(runs[0][1].first_block, 2);
  EXPECT_EQ(runs[0][1].blocks, 1);
  EXPECT_FALSE(runs[0][1].pushed_as_f32);
  EXPECT_EQ(runs[0][2].begin, 11);
  EXPECT_TRUE(runs[0][2].pushed_as_f32);
  ASSERT_EQ(runs[1].size(), 1);
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
      for (uint64_t i = run.begin; i < run.end; ++i) ++seen[i];
      uint64_t next = run.begin;
      for (uint32_t b = run.first_block; b < run.first_block + run.blocks; ++b) {
        const DenseLayout::Block& block =
            layout.blocks()[layout.partition_blocks(run.partition)[b]];
        EXPECT_EQ(block.begin, next);
        next = block.end;
        EXPECT_TRUE(blocks.insert({run.partition, b}).second);
      }
      EXPECT_EQ(next, run.end);
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_EQ(blocks.size(), layout.blocks().size());
  EXPECT_TRUE(runs[2].empty());
  EXPECT_TRUE(runs[4].empty());
}

}  // namespace
}  // namespace muster
