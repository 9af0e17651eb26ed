#include "common/partition/shard_layout.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition/unit_places.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorSpec UnitTensor(std::string name, int64_t elements, uint32_t unit, bool weight_decay = true,
                      DType compute = DType::kF32) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = {elements};
  tensor.unit = unit;
  tensor.weight_decay = weight_decay;
  tensor.compute = compute;
  return tensor;
}

TensorSpec TiedUnitTensor(std::string name, int64_t elements, uint32_t unit, std::string to) {
  TensorSpec tensor = UnitTensor(std::move(name), elements, unit);
  tensor.tied_to = std::move(to);
  return tensor;
}

DenseLayout Layout(const std::vector<TensorSpec>& tensors, uint64_t block_bytes = 1 << 20) {
  return *DenseLayout::Create(tensors, {.block_bytes = block_bytes, .partitions = 3});
}

TEST(ShardLayoutTest, CutsTheMatrixOfTheWorkedExampleIntoRows) {
  const std::vector<TensorSpec> tensors = {UnitTensor("w1", 16, 0), UnitTensor("b1", 4, 0, false),
                                           UnitTensor("w2", 16, 1), UnitTensor("b2", 4, 1, false)};
  const DenseLayout layout = Layout(tensors);
  const ShardLayout shards(layout, 4);
  ASSERT_EQ(shards.parts().size(), 2);
  EXPECT_EQ(shards.parts()[1].begin, 20);
  EXPECT_EQ(shards.parts()[1].end, 40);
  EXPECT_EQ(shards.parts()[1].slice, 5);
  EXPECT_EQ(shards.parts()[1].slice_begin, 5);
  EXPECT_EQ(shards.slice_elements(), 10);
  EXPECT_THAT(shards.unit_parts(1), ElementsAre(1));
  EXPECT_THAT(shards.unit_parts(7), IsEmpty());
}

TEST(ShardLayoutTest, PartsAreOfOneTypeSixteenBitsFirst) {
  const std::vector<TensorSpec> tensors = {UnitTensor("gain", 3, 0, false),
                                           UnitTensor("weights", 6, 0, true, DType::kBf16),
                                           UnitTensor("bias", 2, 0, false, DType::kBf16)};
  const DenseLayout layout = Layout(tensors);
  const ShardLayout shards(layout, 2);
  ASSERT_EQ(shards.parts().size(), 2);
  EXPECT_EQ(shards.parts()[0].compute, DType::kBf16);
  EXPECT_EQ(shards.parts()[0].slice, 4);
  EXPECT_EQ(shards.parts()[1].compute, DType::kF32);
  EXPECT_EQ(shards.parts()[1].slice, 2);
  EXPECT_EQ(shards.parts()[1].slice_begin, 4);
  EXPECT_EQ(layout.tensor_offset(0), 8);
  EXPECT_EQ(shards.PartOf(7), 0);
  EXPECT_EQ(shards.PartOf(8), 1);
}

TEST(ShardLayoutTest, OneShardHasTheFlatSpace) {
  const std::vector<TensorSpec> tensors = {UnitTensor("a", 70'001, 0), UnitTensor("b", 13, 1)};
  const DenseLayout layout = Layout(tensors, 4096);
  const ShardLayout shards(layout, 1);
  EXPECT_EQ(shards.slice_elements(), layout.elements());
  const std::vector<ShardLayout::OwnedBlock> owned = shards.OwnedBlocks(layout, 0);
  ASSERT_EQ(owned.size(), layout.blocks().size());
  for (size_t i = 0; i < owned.size(); ++i) {
    EXPECT_EQ(owned[i].id, i);
    EXPECT_EQ(owned[i].slice_begin, layout.blocks()[i].begin);
    EXPECT_EQ(owned[i].block.end, layout.blocks()[i].end);
  }
}

// Every element of random tensors is owned once, in whole cells, and lies in its place.
TEST(ShardLayoutTest, ShardsOwnEveryElementOnceInWholeCells) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<TensorSpec> tensors;
    const int count = 1 + random() % 7;
    for (int i = 0; i < count; ++i) {
      const int64_t elements = random() % 3 == 0 ? random() % 5000 : random() % 40;
      tensors.push_back(UnitTensor(absl::StrCat("t", i), elements, random() % 3, random() % 2 == 0,
                                   random() % 2 == 0 ? DType::kF32 : DType::kBf16));
    }
    const DenseLayout layout = Layout(tensors, uint64_t{4} << (random() % 12));
    const int shard_count = 1 + random() % 9;
    const ShardLayout shards(layout, shard_count);

    std::vector<int> owners(layout.elements());
    // The number of cells of each block's narrowed blocks.
    std::vector<uint64_t> cells(layout.blocks().size());

    for (int shard = 0; shard < shard_count; ++shard) {
      uint64_t last = 0;
      for (const ShardLayout::OwnedBlock& owned : shards.OwnedBlocks(layout, shard)) {
        const DenseLayout::Block& whole = layout.blocks()[owned.id];
        const ShardLayout::Part& part = shards.parts()[owned.block.part];
        ASSERT_LT(owned.block.begin, owned.block.end);
        ASSERT_GE(owned.block.begin, whole.begin);
        ASSERT_LE(owned.block.end, whole.end);
        // Ends of narrowed blocks are ends of cells.
        const uint64_t cell = layout.parts()[owned.block.part].cell;
        if (owned.block.end != whole.end) {
          ASSERT_EQ((owned.block.end - part.begin) % cell, 0);
        }
        // The position in the slice is that in the part, less earlier shards' elements.
        ASSERT_EQ(owned.slice_begin - part.slice_begin,
                  owned.block.begin - part.begin - shard * part.slice);
        ASSERT_LE(owned.slice_begin + owned.block.elements(), part.slice_begin + part.slice);
        ASSERT_GE(owned.slice_begin, last);
        last = owned.slice_begin + owned.block.elements();
        cells[owned.id] += layout.cells(owned.block).Count(owned.block.elements());
        uint64_t at = owned.block.begin;
        for (const DenseLayout::Piece& piece : owned.block.pieces) {
          ASSERT_LT(piece.begin, piece.end);
          ASSERT_EQ(layout.tensor_offset(piece.tensor) + piece.begin, at);
          at += piece.end - piece.begin;
        }
        ASSERT_EQ(at, owned.block.end);
        for (uint64_t i = owned.block.begin; i < owned.block.end; ++i) ++owners[i];
      }
      ASSERT_LE(last, shards.slice_elements());
    }
    ASSERT_EQ(std::count(owners.begin(), owners.end(), 1), owners.size());
    for (uint32_t id = 0; id < cells.size(); ++id) {
      const DenseLayout::Block& block = layout.blocks()[id];
      ASSERT_EQ(cells[id], layout.cells(block).Count(block.elements()));
    }
  }
}

using Places = UnitPlaces;

TEST(UnitPlacesTest, WholePlacesDoNotOverlap) {
  const std::vector<TensorSpec> tensors = {UnitTensor("a", 100, 0, true, DType::kBf16),
                                           UnitTensor("b", 3, 1)};
  const ShardLayout shards(Layout(tensors), 2);
  const Places places(shards, tensors, Places::Holding::kWhole, Places::Content::kWeights);
  EXPECT_EQ(places.part_offset(0), 0);
  EXPECT_EQ(places.part_offset(1), 256);  // 100 elements of 2 bytes.
  EXPECT_EQ(places.bytes(), 256 + 64);
  EXPECT_EQ(places.shared_place(0), -1);
}

TEST(UnitPlacesTest, UnitsInFlightLieInTwoPlacesByTurns) {
  const std::vector<TensorSpec> tensors = {UnitTensor("a", 32, 0), UnitTensor("b", 16, 1),
                                           UnitTensor("c", 64, 3), UnitTensor("d", 48, 4)};
  const ShardLayout shards(Layout(tensors), 2);
  const Places places(shards, tensors, Places::Holding::kInFlight, Places::Content::kGradients);
  // a and c, then b and d; unit 2 has no parameters.
  EXPECT_EQ(places.bytes(), (64 + 48) * 4);
  EXPECT_EQ(places.part_offset(0), 0);
  EXPECT_EQ(places.part_offset(1), 64 * 4);
  EXPECT_EQ(places.part_offset(2), 0);
  EXPECT_EQ(places.part_offset(3), 64 * 4);
  EXPECT_EQ(places.shared_place(0), 0);
  EXPECT_EQ(places.shared_place(1), 1);
  EXPECT_EQ(places.shared_place(2), -1);
  EXPECT_EQ(places.shared_place(3), 0);
  EXPECT_EQ(places.shared_place(4), 1);
}

TEST(UnitPlacesTest, AUnitThatOthersAreTiedToKeepsItsPlace) {
  const std::vector<TensorSpec> tensors = {UnitTensor("embedding", 32, 0), UnitTensor("b", 16, 1),
                                           UnitTensor("c", 16, 2),
                                           TiedUnitTensor("head", 32, 3, "embedding")};
  const ShardLayout shards(Layout(tensors), 2);
  const Places places(shards, tensors, Places::Holding::kInFlight, Places::Content::kWeights);
  EXPECT_EQ(places.bytes(), (32 + 16 + 16) * 4);
  EXPECT_EQ(places.part_offset(0), 0);
  EXPECT_EQ(places.shared_place(0), -1);
  EXPECT_EQ(places.shared_place(1), 0);
  EXPECT_EQ(places.shared_place(2), 1);
  EXPECT_EQ(places.shared_place(3), -1);
  EXPECT_THAT(places.tied_units(3), ElementsAre(0));
  EXPECT_THAT(places.tied_units(0), IsEmpty());
  EXPECT_THAT(places.tied_units(9), IsEmpty());
}

TEST(UnitPlacesTest, UnitsAreKeptInOrderAsFarAsTheyFit) {
  const std::vector<TensorSpec> tensors = {
      UnitTensor("embedding", 32, 0), UnitTensor("b", 16, 1),
      UnitTensor("c", 64, 2),         UnitTensor("d", 16, 3),
      UnitTensor("e", 48, 4),         TiedUnitTensor("head", 32, 5, "embedding")};
  const ShardLayout shards(Layout(tensors), 2);
  const auto shared = [&](uint64_t kept_bytes) {
    const Places places(shards, tensors, Places::Holding::kInFlight, Places::Content::kWeights,
                        kept_bytes);
    std::vector<int> shared;
    for (int unit = 1; unit < 5; ++unit) shared.push_back(places.shared_place(unit));
    return std::make_pair(shared, places.bytes() / 4);
  };
  using Units = std::vector<int>;
  // The embedding is there anyway, and does not count.
  EXPECT_EQ(shared(0), std::make_pair(Units{0, 1, 0, 1}, uint64_t{32 + 16 + 64}));
  EXPECT_EQ(shared(63), shared(0));
  // b alone, then b and d; c would not fit. Those that are left take turns.
  EXPECT_EQ(shared(64), std::make_pair(Units{-1, 0, 1, 0}, uint64_t{32 + 16 + 64 + 16}));
  EXPECT_EQ(shared(128), std::make_pair(Units{-1, 0, -1, 1}, uint64_t{32 + 16 + 16 + 64 + 48}));
  EXPECT_EQ(shared(1000), std::make_pair(Units{-1, -1, -1, -1}, uint64_t{32 + 16 + 64 + 16 + 48}));
  // Whole places are the same.
  const Places whole(shards, tensors, Places::Holding::kWhole, Places::Content::kWeights, 64);
  EXPECT_EQ(whole.bytes() / 4, 32 + 16 + 64 + 16 + 48);
}

// All holders together have every element of the experts and of everything else; each is once not
// repeated.
TEST(ShardLayoutTest, HoldersOfExpertsHaveEachElementOnce) {
  std::vector<TensorSpec> whole = {
      {.name = "w", .shape = {40, 8}},
      {.name = "experts",
       .shape = {64, 16},
       .placement = {.kind = Placement::Kind::kExperts, .sections = {{64, 8}}}}};
  for (const auto& [shards, experts] :
       std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {4, 2}, {2, 4}, {1, 8}, {8, 4}}) {
    SCOPED_TRACE(testing::Message() << shards << " shards, " << experts << " expert ranks");
    const Mesh mesh(
        {.replica = std::max(shards, experts) / shards, .shard = shards, .expert = experts});
    std::vector<std::vector<int>> counted = {std::vector<int>(320), std::vector<int>(1024)};
    for (int holder = 0; holder < mesh.world_size(); ++holder) {
      const auto local = LocalTensors(whole, {mesh}, holder).value();
      const DenseLayout layout =
          DenseLayout::Create(local, {.block_bytes = 256, .partitions = 2}).value();
      const ShardLayout divided(layout, Holders(mesh));
      EXPECT_EQ(divided.holders().count(), mesh.size(kHolderAxes));
      for (const auto& owned : divided.OwnedBlocks(layout, mesh.Position(holder, kHolderAxes))) {
        for (const DenseLayout::Piece& piece : owned.block.pieces) {
          ForEachGlobal(local[piece.tensor], piece.begin, piece.end,
                        [&](uint64_t, uint64_t global, uint64_t count) {
                          for (uint64_t i = 0; i < count && !owned.block.repeated; ++i) {
                            ++counted[piece.tensor][global + i];
                          }
                        });
        }
      }
    }
    for (const std::vector<int>& of_tensor : counted) {
      EXPECT_EQ(std::count(of_tensor.begin(), of_tensor.end(), 1), of_tensor.size());
    }
  }
}

}  // namespace
}  // namespace muster
