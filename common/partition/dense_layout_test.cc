#include "common/partition/dense_layout.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorSpec Tensor(std::string name, std::vector<int64_t> shape, uint32_t unit = 0,
                  bool weight_decay = true) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.unit = unit;
  tensor.weight_decay = weight_decay;
  return tensor;
}

TensorSpec Tied(std::string name, std::vector<int64_t> shape, std::string to) {
  TensorSpec tensor = Tensor(std::move(name), std::move(shape));
  tensor.tied_to = std::move(to);
  return tensor;
}

std::vector<std::pair<uint64_t, uint64_t>> Bounds(const DenseLayout& layout) {
  std::vector<std::pair<uint64_t, uint64_t>> bounds;
  for (const DenseLayout::Block& block : layout.blocks()) {
    bounds.emplace_back(block.begin, block.end);
  }
  return bounds;
}

// Everything the class promises, checked element by element against the list of tensors.
void ExpectSound(const std::vector<TensorSpec>& tensors, const DenseLayout::Options& options) {
  const absl::StatusOr<DenseLayout> created = DenseLayout::Create(tensors, options);
  ASSERT_TRUE(created.ok()) << created.status();
  const DenseLayout& layout = *created;

  uint64_t elements = 0;
  std::vector<std::vector<int>> covered(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    covered[t].resize(tensors[t].elements());
    elements += covered[t].size();
  }
  ASSERT_EQ(layout.elements(), elements);

  uint64_t next = 0;
  uint64_t largest = 0;
  std::pair<uint32_t, bool> last_group = {0, false};
  for (const DenseLayout::Block& block : layout.blocks()) {
    ASSERT_EQ(block.begin, next);
    ASSERT_LT(block.begin, block.end);
    ASSERT_LE(block.elements() * sizeof(float), options.block_bytes);
    next = block.end;
    largest = std::max(largest, block.elements());
    const std::pair<uint32_t, bool> group = {block.unit, !block.weight_decay};
    ASSERT_LE(last_group, group);
    last_group = group;

    uint64_t at = block.begin;
    for (const DenseLayout::Piece& piece : block.pieces) {
      ASSERT_LT(piece.begin, piece.end);
      ASSERT_EQ(layout.tensor_offset(piece.tensor) + piece.begin, at);
      ASSERT_EQ(tensors[piece.tensor].unit, block.unit);
      ASSERT_EQ(tensors[piece.tensor].weight_decay, block.weight_decay);
      for (uint64_t i = piece.begin; i < piece.end; ++i) ++covered[piece.tensor].at(i);
      at += piece.end - piece.begin;
    }
    ASSERT_EQ(at, block.end);
  }
  ASSERT_EQ(next, elements);
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (int count : covered[t]) ASSERT_EQ(count, 1) << tensors[t].name;
  }

  ASSERT_EQ(layout.partitions(), options.partitions);
  std::vector<int> dealt(layout.blocks().size());
  uint64_t least = elements, most = 0;
  for (uint32_t p = 0; p < layout.partitions(); ++p) {
    uint64_t load = 0;
    uint32_t index = 0;
    for (uint32_t id : layout.partition_blocks(p)) {
      const DenseLayout::Block& block = layout.blocks()[id];
      ASSERT_EQ(block.partition, p);
      ASSERT_EQ(block.index_in_partition, index++);
      if (index > 1) {
        ASSERT_LT(layout.partition_blocks(p)[index - 2], id);
      }
      ++dealt[id];
      load += block.elements();
    }
    least = std::min(least, load);
    most = std::max(most, load);
  }
  for (int count : dealt) ASSERT_EQ(count, 1);
  ASSERT_LE(most - least, largest);

  const DenseLayout again = *DenseLayout::Create(tensors, options);
  ASSERT_EQ(Bounds(again), Bounds(layout));
  for (uint32_t p = 0; p < layout.partitions(); ++p) {
    ASSERT_EQ(again.partition_blocks(p), layout.partition_blocks(p));
  }
}

TEST(DenseLayoutTest, LaysOutTheExampleOfItsComment) {
  const std::vector<TensorSpec> tensors = {Tensor("b", {2}, 0, false), Tensor("v", {3}, 1),
                                           Tensor("w", {2, 3}, 0)};
  const auto layout = DenseLayout::Create(tensors, {.block_bytes = 16, .partitions = 2});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->tensor_offset(2), 0);
  EXPECT_EQ(layout->tensor_offset(0), 6);
  EXPECT_EQ(layout->tensor_offset(1), 8);
  EXPECT_THAT(Bounds(*layout),
              ElementsAre(std::pair(0, 3), std::pair(3, 6), std::pair(6, 8), std::pair(8, 11)));
  EXPECT_THAT(layout->partition_blocks(0), ElementsAre(0, 3));
  EXPECT_THAT(layout->partition_blocks(1), ElementsAre(1, 2));
}

TEST(DenseLayoutTest, WhatMovesBySignsIsInBlocksOfItsOwnByRate) {
  std::vector<TensorSpec> tensors = {Tensor("slow", {3}), Tensor("a", {4}), Tensor("fast", {2}),
                                     Tensor("b", {2}, 0, false), Tensor("slow2", {1})};
  tensors[0].sign_rate = tensors[4].sign_rate = 0.25;
  tensors[2].sign_rate = 0.5;
  const DenseLayout layout = DenseLayout::Create(tensors, {.block_bytes = 1024}).value();
  EXPECT_THAT(Bounds(layout),
              ElementsAre(std::pair(0, 4), std::pair(4, 6), std::pair(6, 10), std::pair(10, 12)));
  std::vector<float> rates;
  std::vector<bool> in_norm;
  for (const DenseLayout::Block& block : layout.blocks()) {
    rates.push_back(block.sign_rate);
    in_norm.push_back(block.in_norm());
  }
  EXPECT_THAT(rates, ElementsAre(0, 0, 0.25, 0.5));
  EXPECT_THAT(in_norm, ElementsAre(true, true, false, false));
  EXPECT_EQ(layout.parts().size(), 1);
}

TEST(DenseLayoutTest, FrozenTensorsLieBehindAllThatIsTrained) {
  std::vector<TensorSpec> tensors = {Tensor("base0", {40}), Tensor("adapter0", {6}),
                                     Tensor("base1", {24}, 1), Tensor("adapter1", {5}, 1)};
  tensors[0].frozen = tensors[2].frozen = true;
  tensors[2].weight_decay = false;
  const DenseLayout layout =
      DenseLayout::Create(tensors, {.block_bytes = 64, .partitions = 2}).value();
  const DenseLayout trained = layout.Trained();
  std::vector<TensorSpec> alone = {tensors[1], tensors[3]};
  const DenseLayout without =
      DenseLayout::Create(alone, {.block_bytes = 64, .partitions = 2}).value();
  EXPECT_EQ(trained.elements(), 11);
  EXPECT_EQ(Bounds(trained), Bounds(without));
  ASSERT_EQ(layout.parts().size(), 4);
  EXPECT_EQ(trained.parts().size(), 2);
  EXPECT_EQ(layout.tensor_offset(1), 0);
  EXPECT_EQ(layout.tensor_offset(3), 6);
  EXPECT_EQ(layout.tensor_offset(0), 11);
  EXPECT_EQ(layout.tensor_offset(2), 51);
  EXPECT_EQ(layout.parts()[2].unit, 0);
  EXPECT_EQ(layout.parts()[3].unit, 1);
  for (const DenseLayout::Block& block : layout.blocks()) {
    EXPECT_EQ(block.frozen, block.begin >= trained.elements());
    EXPECT_EQ(block.in_norm(), !block.frozen);
  }
  for (uint32_t p = 0; p < 2; ++p) {
    for (const uint32_t id : trained.partition_blocks(p)) {
      EXPECT_EQ(trained.blocks()[id].index_in_partition, layout.blocks()[id].index_in_partition);
      EXPECT_FALSE(layout.blocks()[id].frozen);
    }
  }
}

TEST(DenseLayoutTest, GroupsOfOtherRatesAndDecaysAreInBlocksOfTheirOwn) {
  std::vector<TensorSpec> tensors = {Tensor("a", {4}), Tensor("b", {4}), Tensor("c", {4}),
                                     Tensor("d", {4}, 0, false)};
  tensors[1].rate = 2;
  tensors[3].own_weight_decay = 0.5f;
  const DenseLayout layout = DenseLayout::Create(tensors, {.block_bytes = 1024}).value();
  ASSERT_EQ(layout.blocks().size(), 3);
  EXPECT_EQ(layout.parts().size(), 1);
  EXPECT_EQ(layout.blocks()[0].elements(), 8);
  EXPECT_EQ(layout.blocks()[1].rate, 2);
  EXPECT_EQ(layout.blocks()[2].own_weight_decay, 0.5f);
}

TEST(DenseLayoutTest, KeepsItsPromisesOnRandomModels) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) {
    return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<TensorSpec> tensors;
    const uint32_t count = below(12);
    for (uint32_t t = 0; t < count; ++t) {
      std::vector<int64_t> shape;
      for (uint32_t dims = below(4); dims > 0; --dims) shape.push_back(below(14));
      tensors.push_back(Tensor(absl::StrCat("t", t), shape, below(4), below(2) == 0));
    }
    const DenseLayout::Options options = {.block_bytes = 4 * (1 + below(200)),
                                          .partitions = 1 + below(9)};
    SCOPED_TRACE(absl::StrCat("trial ", trial));
    ExpectSound(tensors, options);
    if (HasFatalFailure()) return;
  }
}

TEST(DenseLayoutTest, CutsEvenlyAtCacheLines) {
  const auto layout =
      DenseLayout::Create({Tensor("w", {1000, 300})}, {.block_bytes = 1 << 20, .partitions = 2});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(Bounds(*layout), ElementsAre(std::pair(0, 150000), std::pair(150000, 300000)));
}

TEST(DenseLayoutTest, TensorsOfOneGroupShareBlocks) {
  const auto layout = DenseLayout::Create({Tensor("a", {3}), Tensor("b", {5})}, {});
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->blocks().size(), 1);
  ASSERT_EQ(layout->blocks()[0].pieces.size(), 2);
  EXPECT_EQ(layout->blocks()[0].pieces[1].tensor, 1);
  EXPECT_EQ(layout->blocks()[0].pieces[1].end, 5);
}

TEST(DenseLayoutTest, ModelWithoutTensorsHasNoBlocks) {
  const auto layout = DenseLayout::Create({}, {.partitions = 3});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->elements(), 0);
  EXPECT_THAT(layout->blocks(), IsEmpty());
  ASSERT_EQ(layout->partitions(), 3);
  EXPECT_THAT(layout->partition_blocks(2), IsEmpty());
}

TEST(DenseLayoutTest, ScalarHasOneElementAndEmptyTensorNone) {
  const auto layout = DenseLayout::Create({Tensor("empty", {4, 0}), Tensor("scalar", {})}, {});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->elements(), 1);
  ASSERT_EQ(layout->blocks().size(), 1);
  EXPECT_EQ(layout->blocks()[0].pieces.size(), 1);
}

TEST(DenseLayoutTest, TiedTensorIsWhereItsOwnerIs) {
  const auto layout = DenseLayout::Create(
      {Tied("out", {3, 2}, "in"), Tensor("first", {4}), Tensor("in", {2, 3})}, {});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->elements(), 10);
  EXPECT_EQ(layout->tensor_offset(0), 4);
  EXPECT_EQ(layout->tensor_offset(2), 4);
}

TEST(DenseLayoutTest, CostDoesNotGrowWithElements) {
  // 2^38 elements: anything that touched each would not end.
  const auto layout = DenseLayout::Create({Tensor("w", {1 << 19, 1 << 19})}, {.partitions = 64});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->blocks().size(), DenseLayout::kMaxBlocks);
}

struct BadLayout {
  std::string what;
  std::vector<TensorSpec> tensors;
  DenseLayout::Options options;
  std::vector<std::string> message;
};

class DenseLayoutErrorTest : public testing::TestWithParam<BadLayout> {};

TEST_P(DenseLayoutErrorTest, NamesFieldAndValue) {
  const auto layout = DenseLayout::Create(GetParam().tensors, GetParam().options);
  ASSERT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(std::string(layout.status().message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DenseLayoutErrorTest,
    testing::Values(
        BadLayout{"NoName", {Tensor("a", {1}), Tensor("", {1})}, {}, {"tensor 1 of 2", "no name"}},
        BadLayout{"SameName", {Tensor("a", {1}), Tensor("a", {2})}, {}, {"0 and 1", "named a"}},
        BadLayout{"Negative", {Tensor("a", {2, -3})}, {}, {"tensor a", "[2, -3]"}},
        BadLayout{"NegativeBesideZero", {Tensor("a", {0, -3})}, {}, {"tensor a", "[0, -3]"}},
        BadLayout{"Overflow",
                  {Tensor("a", {int64_t{1} << 62, int64_t{1} << 62, 16})},
                  {},
                  {"tensor a", "2^40"}},
        BadLayout{"TooManyTogether",
                  {Tensor("a", {int64_t{1} << 40}), Tensor("b", {1})},
                  {},
                  {"up to b", "2^40"}},
        BadLayout{"BlockBytesZero", {}, {.block_bytes = 0}, {"block_bytes is 0"}},
        BadLayout{"BlockBytesOdd", {}, {.block_bytes = 6}, {"block_bytes is 6", "multiple of 4"}},
        BadLayout{"NoPartition", {}, {.partitions = 0}, {"partitions is 0"}},
        BadLayout{"ManyPartitions", {}, {.partitions = 1 << 17}, {"partitions is 131072"}},
        BadLayout{"ManyBlocks",
                  {Tensor("a", {1 << 21})},
                  {.block_bytes = 4},
                  {"block_bytes is 4", "2097152 blocks", "raise"}},
        BadLayout{"TieToNothing", {Tied("a", {1}, "b")}, {}, {"tensor a", "tied to b", "not in"}},
        BadLayout{"TieToItself", {Tied("a", {1}, "a")}, {}, {"tensor a", "tied itself"}},
        BadLayout{"TieOfOtherSize",
                  {Tensor("a", {3}), Tied("b", {2}, "a")},
                  {},
                  {"tensor b has 2", "which has 3"}}),
    [](const testing::TestParamInfo<BadLayout>& info) { return info.param.what; });

// Elements that other tensor ranks have, too, end blocks where they begin and end.
TEST(DenseLayoutTest, SharedElementsAreInBlocksOfTheirOwn) {
  std::vector<TensorSpec> tensors = {Tensor("qkv", {9, 4}), Tensor("gain", {4}, 0, false),
                                     Tensor("bias", {9}, 0, false), Tensor("none", {0}, 0, false)};
  for (const bool first : {true, false}) {
    tensors[0].shared = {{12, 36, 2, first}};
    tensors[1].shared = {{0, 4, 4, first}};
    tensors[2].shared = {{3, 9, 2, first}};
    const DenseLayout layout = DenseLayout::Create(tensors, {.block_bytes = 64}).value();
    EXPECT_THAT(Bounds(layout),
                ElementsAre(std::pair(0, 12), std::pair(12, 28), std::pair(28, 36),
                            std::pair(36, 40), std::pair(40, 43), std::pair(43, 49)));
    std::vector<bool> repeated;
    for (const DenseLayout::Block& block : layout.blocks()) repeated.push_back(block.repeated);
    if (first) {
      EXPECT_THAT(repeated, Each(false));
    } else {
      EXPECT_THAT(repeated, ElementsAre(false, true, true, true, false, true));
    }
    ExpectSound(tensors, {.block_bytes = 64});
  }
}

// Two stages have a tensor of f32 in units of different other tensors.
TEST(DenseLayoutTest, WhatSeveralStagesHaveIsAPartOfItsOwn) {
  std::vector<TensorSpec> first = {Tensor("embedding", {70, 4}), Tensor("positions", {9, 4})};
  std::vector<TensorSpec> last = {Tensor("embedding", {70, 4}, 3), Tensor("positions", {0, 4}),
                                  Tensor("norm", {4}, 3, false)};
  first[0].stages = last[0].stages = 2;
  last[0].first_stage = false;
  const DenseLayout::Options options = {.block_bytes = 512};
  const DenseLayout on_first = DenseLayout::Create(first, options).value();
  const DenseLayout on_last = DenseLayout::Create(last, options).value();
  ASSERT_EQ(on_first.parts().size(), 2);
  ASSERT_EQ(on_last.parts().size(), 2);
  EXPECT_EQ(on_first.parts()[0].elements(), 280);
  EXPECT_EQ(on_last.parts()[0].elements(), 280);
  EXPECT_EQ(on_first.parts()[0].cell, on_last.parts()[0].cell);
  EXPECT_EQ(on_first.parts()[1].elements(), 36);
  EXPECT_EQ(on_last.parts()[1].elements(), 4);
  ASSERT_EQ(on_first.blocks().size(), 4);
  ASSERT_EQ(on_last.blocks().size(), 4);
  for (size_t i = 0; i < 3; ++i) {
    const DenseLayout::Block& one = on_first.blocks()[i];
    const DenseLayout::Block& other = on_last.blocks()[i];
    EXPECT_EQ(one.pieces[0].begin, other.pieces[0].begin);
    EXPECT_EQ(one.pieces[0].end, other.pieces[0].end);
    EXPECT_FALSE(one.repeated);
    EXPECT_TRUE(other.repeated);
  }
  ExpectSound(first, options);
  ExpectSound(last, options);
}

}  // namespace
}  // namespace muster
