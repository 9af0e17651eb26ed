#include "common/partition/served_layout.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition/local_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr DenseLayout::Options kSmallBlocks = {.block_bytes = 64, .partitions = 3};

// Tensors of all placements in two units, with key-value heads that pairs of four ranks have in
// common, of two optimizer groups, with four experts, and a tied tensor.
std::vector<TensorSpec> Tensors() {
  using Kind = Placement::Kind;
  const Placement by_row = {.kind = Kind::kShard, .dimension = 0, .sections = {{8, 8}}};
  const Placement heads = {
      .kind = Kind::kShard, .dimension = 0, .sections = {{16, 4}, {4, 2}, {4, 2}}};
  return {
      {.name = "embedding", .shape = {8, 6}, .unit = 0, .placement = by_row},
      {.name = "positions", .shape = {5, 6}, .unit = 0, .placement = {.kind = Kind::kFirst}},
      {.name = "norm", .shape = {6}, .unit = 1, .weight_decay = false},
      {.name = "qkv", .shape = {24, 6}, .unit = 1, .placement = heads},
      {.name = "qkv.bias", .shape = {24}, .unit = 1, .weight_decay = false, .placement = heads},
      {.name = "down",
       .shape = {6, 8},
       .unit = 1,
       .placement = {.kind = Kind::kShard, .dimension = 1, .sections = {{8, 8}}}},
      {.name = "down.bias",
       .shape = {6},
       .unit = 1,
       .weight_decay = false,
       .placement = {.kind = Kind::kFirst}},
      {.name = "norm2", .shape = {6}, .unit = 1, .weight_decay = false},
      {.name = "experts",
       .shape = {8, 6},
       .unit = 1,
       .placement = {.kind = Kind::kExperts, .dimension = 0, .sections = {{8, 4}}}},
      {.name = "head", .shape = {8, 6}, .unit = 2, .placement = by_row, .tied_to = "embedding"},
  };
}

// Element `global` of a tensor.
using Element = std::pair<std::string, uint64_t>;

// Appends the elements of a block, in order.
void AppendElements(absl::Span<const TensorSpec> tensors, const DenseLayout::Block& block,
                    std::vector<Element>& elements) {
  for (const DenseLayout::Piece& piece : block.pieces) {
    ForEachGlobal(tensors[piece.tensor], piece.begin, piece.end,
                  [&](uint64_t, uint64_t global, uint64_t count) {
                    for (uint64_t i = 0; i < count; ++i) {
                      elements.emplace_back(tensors[piece.tensor].name, global + i);
                    }
                  });
  }
}

class ServedLayoutTest : public ::testing::TestWithParam<ModelDivision> {
 protected:
  const int ranks_ = GetParam().mesh.world_size();
  const ServedTensors served_ = ServeTensors(Tensors(), GetParam(), kSmallBlocks).value();
  const size_t n_ = served_.tensors.size() / ranks_;
};

TEST_P(ServedLayoutTest, EachElementIsInOneBlock) {
  std::set<Element> seen;
  uint64_t end = 0;
  for (const DenseLayout::Block& block : served_.layout.blocks()) {
    EXPECT_EQ(block.begin, end);
    end = block.end;
    EXPECT_LE(block.elements() * sizeof(float), kSmallBlocks.block_bytes);
    for (const DenseLayout::Piece& piece : block.pieces) {
      EXPECT_EQ(piece.tensor / n_, OwnerOf(block, n_)) << "all of one rank";
    }
    const DenseLayout::Part& part = served_.layout.parts()[block.part];
    EXPECT_LE(part.begin, block.begin);
    EXPECT_GE(part.end, block.end);
    EXPECT_EQ(part.unit, block.unit);
    std::vector<Element> elements;
    AppendElements(served_.tensors, block, elements);
    EXPECT_EQ(elements.size(), block.elements());
    for (const Element& element : elements) {
      EXPECT_TRUE(seen.insert(element).second) << element.first << " " << element.second;
    }
  }
  EXPECT_EQ(served_.layout.elements(), end);
  uint64_t whole = 0;
  for (const TensorSpec& tensor : Tensors()) {
    if (tensor.tied_to.empty()) whole += tensor.elements();
  }
  EXPECT_EQ(seen.size(), whole);
}

TEST_P(ServedLayoutTest, RanksHaveTheirSharesInTheServersBlocks) {
  // The ranks that have each block of the servers.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int>> holders;
  for (int rank = 0; rank < ranks_; ++rank) {
    const DenseLayout layout = LayoutOfRank(served_, rank);
    EXPECT_EQ(layout.partitions(), kSmallBlocks.partitions);
    const auto own = absl::MakeConstSpan(served_.tensors).subspan(rank * n_, n_);
    std::vector<uint64_t> seen(own.size());
    uint64_t end = 0;
    for (const DenseLayout::Block& block : layout.blocks()) {
      EXPECT_EQ(block.begin, end) << "the blocks make up the flat space";
      end = block.end;
      const DenseLayout::Block& on_servers =
          served_.layout
              .blocks()[served_.layout.partition_blocks(block.partition)[block.index_in_partition]];
      std::vector<Element> here, there;
      AppendElements(own, block, here);
      AppendElements(served_.tensors, on_servers, there);
      EXPECT_EQ(here, there) << "rank " << rank;
      EXPECT_EQ(block.repeated, !BlockPushers::Of(served_, on_servers).Has(served_.mesh, rank));
      EXPECT_EQ(layout.parts()[block.part].unit, block.unit);
      EXPECT_EQ(block.unit, own[block.pieces[0].tensor].unit);
      uint64_t at = block.begin;
      for (const DenseLayout::Piece& piece : block.pieces) {
        EXPECT_EQ(layout.tensor_offset(piece.tensor) + piece.begin, at);
        at += piece.end - piece.begin;
        seen[piece.tensor] += piece.end - piece.begin;
      }
      holders[{block.partition, block.index_in_partition}].push_back(rank);
    }
    EXPECT_EQ(layout.elements(), end);
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(seen[i], own[i].tied_to.empty() ? own[i].elements() : 0) << own[i].name;
    }
    if (!own.back().tied_to.empty()) {
      EXPECT_EQ(layout.tensor_offset(n_ - 1), layout.tensor_offset(0)) << "tied";
    }
  }
  EXPECT_EQ(holders.size(), served_.layout.blocks().size());
}

// Stages of one virtual stage and of two.
INSTANTIATE_TEST_SUITE_P(
    All, ServedLayoutTest,
    ::testing::Values(
        ModelDivision{}, ModelDivision{Mesh({.tensor = 2})}, ModelDivision{Mesh({.tensor = 4})},
        ModelDivision{.mesh = Mesh({.pipeline = 2}), .virtual_stage_units = {2, 1}},
        ModelDivision{.mesh = Mesh({.pipeline = 3}), .virtual_stage_units = {1, 1, 1}},
        ModelDivision{.mesh = Mesh({.pipeline = 2, .tensor = 2}), .virtual_stage_units = {1, 2}},
        ModelDivision{.mesh = Mesh({.pipeline = 3, .tensor = 4}), .virtual_stage_units = {1, 1, 1}},
        ModelDivision{Mesh({.replica = 2, .expert = 2})},
        ModelDivision{.mesh = Mesh({.pipeline = 2, .replica = 4, .tensor = 2, .expert = 4}),
                      .virtual_stage_units = {1, 2}}));

// There are 2 context ranks of 2 data ranks, with 4 expert ranks or 2, which are the context ranks.
TEST(ServedTensorsTest, ExpertRanksPushTheirExpertsAndEverythingElse) {
  for (const int experts : {2, 4}) {
    SCOPED_TRACE(experts);
    const Mesh job({.replica = 2, .context_copies = 2, .tensor = 2, .expert = experts});
    const ServedTensors served =
        ServeTensors(Tensors(), {job.Only(kShareAxes)}, kSmallBlocks).value();
    EXPECT_EQ(served.ranks(), 2 * experts);
    uint64_t elements_of_experts = 0;
    for (const DenseLayout::Block& block : served.layout.blocks()) {
      const DenseLayout::Part& part = served.layout.parts()[block.part];
      if (part.experts) elements_of_experts += block.elements();
      const BlockPushers pushers = BlockPushers::Of(served, block);
      std::vector<int> slots;
      for (int slot = 0; slot < job.world_size(); ++slot) {
        if (!pushers.Has(job, slot)) continue;
        EXPECT_EQ(job.Position(slot, AxesOfPushers(part)), static_cast<int>(slots.size()));
        slots.push_back(slot);
      }
      EXPECT_EQ(slots.size(), part.experts ? 4 / experts : 4u);
      EXPECT_EQ(slots.size(), job.size(AxesOfPushers(part)));
    }
    EXPECT_EQ(elements_of_experts, 8u * 6);
    const std::vector<TensorSpec> own =
        LocalTensors(Tensors(), {served.mesh}, served.mesh.Move(0, kExpertAxes, 1)).value();
    EXPECT_EQ(own[8].elements(), 8 * 6 / experts);
  }
}

TEST(ServedTensorsTest, AStagePullsTheMatrixThatItsHeadIsTiedTo) {
  const ModelDivision division = {.mesh = Mesh({.pipeline = 3}), .virtual_stage_units = {1, 1, 1}};
  const ServedTensors served = ServeTensors(Tensors(), division, kSmallBlocks).value();
  const auto elements = [&](int rank, bool repeated) {
    const DenseLayout layout = LayoutOfRank(served, rank);
    uint64_t sum = 0;
    for (const DenseLayout::Block& block : layout.blocks()) {
      if (block.repeated == repeated) sum += block.elements();
    }
    return sum;
  };
  EXPECT_EQ(elements(0, false), (8 + 5) * 6);
  EXPECT_EQ(elements(2, true), 8 * 6) << "the head";
  EXPECT_EQ(elements(2, false), 0);
  for (const int rank : {0, 1}) EXPECT_EQ(elements(rank, true), 0);
}

TEST(ServedTensorsTest, OneRankHasWholeTensors) {
  const ServedTensors served = ServeTensors(Tensors(), {}, kSmallBlocks).value();
  ASSERT_EQ(served.tensors.size(), Tensors().size());
  EXPECT_TRUE(served.tensors[3].rectangles.empty());
  const DenseLayout whole = DenseLayout::Create(Tensors(), kSmallBlocks).value();
  ASSERT_EQ(served.layout.blocks().size(), whole.blocks().size());
  for (size_t i = 0; i < whole.blocks().size(); ++i) {
    EXPECT_EQ(served.layout.blocks()[i].begin, whole.blocks()[i].begin);
    EXPECT_EQ(served.layout.blocks()[i].partition, whole.blocks()[i].partition);
  }
}

TEST(ServedTensorsTest, RefusesWhatCannotBeDivided) {
  const absl::Status uneven = ServeTensors(Tensors(), {Mesh({.tensor = 3})}, kSmallBlocks).status();
  EXPECT_TRUE(absl::IsInvalidArgument(uneven));
  EXPECT_THAT(uneven.message(), HasSubstr("embedding has 8 units"));
  const absl::Status odd =
      ServeTensors(Tensors(), {Mesh({.replica = 3, .expert = 3})}, kSmallBlocks).status();
  EXPECT_THAT(odd.message(), HasSubstr("experts is of 4 experts, which 3 expert ranks cannot"));
  const absl::Status many_experts =
      ServeTensors(Tensors(), {Mesh({.replica = 2000, .expert = 2000})}, kSmallBlocks).status();
  EXPECT_THAT(many_experts.message(), HasSubstr("1 pipeline stages and 2000 expert ranks make"));
  for (const ModelDivision& division : {ModelDivision{Mesh({.tensor = kMostModelRanks + 1})},
                                        ModelDivision{.mesh = Mesh({.pipeline = 129, .tensor = 8}),
                                        .virtual_stage_units = std::vector<int>(129, 1)}}) {
    const absl::Status many = ServeTensors(Tensors(), division, kSmallBlocks).status();
    EXPECT_TRUE(absl::IsInvalidArgument(many));
    EXPECT_THAT(many.message(),
                HasSubstr(absl::StrCat(division.mesh.size(Axis::kTensor), " tensor ranks and ",
                                       division.stages(), " pipeline stages")));
  }
}

}  // namespace
}  // namespace muster
