#include "common/partition/matrix_rounds.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/partition/local_tensors.h"
#include "common/partition/matrices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// The ranks of a group along tensor ranks and shards, with what they hold of a model.
class Group {
 public:
  Group(const std::vector<TensorSpec>& tensors, const Mesh& mesh) : mesh_(mesh) {
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const MeshPosition position = {mesh, rank};
      shares_.push_back(
          LocalTensors(tensors, {mesh.Only(kShareAxes)}, position.at(kShareAxes)).value());
      const DenseLayout layout = DenseLayout::Create(shares_.back(), {}).value();
      blocks_.push_back(
          ShardLayout(layout, Holders(mesh)).OwnedBlocks(layout, position.at(kHolderAxes)));
    }
    for (int rank = 0; rank < ranks(); ++rank) holders_.push_back({shares_[rank], blocks_[rank]});
  }

  int ranks() const { return mesh_.world_size(); }
  const std::vector<TensorSpec>& shares(int rank) const { return shares_[rank]; }
  const std::vector<ShardLayout::OwnedBlock>& blocks(int rank) const { return blocks_[rank]; }
  MatrixDivision Division() const { return MatrixDivision(holders_); }
  std::vector<MatrixRound> Rounds(int rank) const { return Division().RoundsOf(rank); }

 private:
  const Mesh mesh_;
  std::vector<std::vector<TensorSpec>> shares_;
  std::vector<std::vector<ShardLayout::OwnedBlock>> blocks_;
  std::vector<MatrixHolder> holders_;
};

std::vector<TensorSpec> TensorsOfTwoBlocks() {
  using Kind = Placement::Kind;
  std::vector<TensorSpec> tensors;
  for (uint32_t l = 0; l < 2; ++l) {
    const std::string name = "block" + std::to_string(l);
    const auto add = [&](const std::string& part, int64_t rows, int64_t columns,
                         Placement placement) {
      tensors.push_back({.name = name + part,
                         .shape = {rows, columns},
                         .unit = l,
                         .placement = std::move(placement)});
    };
    add(".qkv.weight", 16, 8, {Kind::kShard, 0, {{8, 4}, {4, 2}, {4, 2}}});
    add(".proj.weight", 8, 8, {Kind::kShard, 1, {{8, 4}}});
    add(".router.weight", 3, 8, {});
    tensors.push_back({.name = name + ".proj.bias",
                       .shape = {8},
                       .unit = l,
                       .placement = {.kind = Kind::kFirst}});
  }
  SetMatrices(absl::MakeSpan(tensors));
  return tensors;
}

// Moves numbers of elements as ranks do: of each element, its index in the global tensor.
void ExpectBringsMatricesTogether(const Group& group) {
  std::vector<std::vector<MatrixRound>> rounds;
  for (int rank = 0; rank < group.ranks(); ++rank) rounds.push_back(group.Rounds(rank));
  // The number that an element is known by: of its tensor and its place in it.
  const auto globals = [&](int rank, uint32_t index) {
    const DenseLayout::Piece& piece = group.blocks(rank)[index].block.pieces[0];
    std::vector<uint64_t> numbers;
    ForEachGlobal(group.shares(rank)[piece.tensor], piece.begin, piece.end,
                  [&](uint64_t, uint64_t global, uint64_t count) {
                    for (uint64_t i = 0; i < count; ++i) {
                      numbers.push_back(1 + 1000 * piece.tensor + global + i);
                    }
                  });
    return numbers;
  };
  std::vector<std::map<uint32_t, uint64_t>> returned(group.ranks());
  MatrixDivision::Moved moved;
  for (size_t r = 0; r < rounds[0].size(); ++r) {
    for (int owner = 0; owner < group.ranks(); ++owner) {
      ASSERT_EQ(rounds[owner].size(), rounds[0].size());
      const MatrixRound& round = rounds[owner][r];
      std::vector<uint64_t> matrices(round.owned_elements);
      const auto of = [&](int rank) -> const MatrixPeer* {
        for (const MatrixPeer& peer : rounds[rank][r].peers) {
          if (peer.rank == owner) return &peer;
        }
        return nullptr;
      };
      for (const MatrixPeer& peer : round.peers) {
        const MatrixPeer* const other = of(peer.rank);
        ASSERT_NE(other, nullptr);
        ASSERT_EQ(other->sent.size(), peer.taken.size());
        if (peer.rank != owner) moved.to_owners += ElementsOf(peer.taken);
        for (size_t i = 0; i < peer.taken.size(); ++i) {
          ASSERT_EQ(other->sent[i].count, peer.taken[i].count);
          const std::vector<uint64_t> numbers = globals(peer.rank, other->sent[i].block);
          for (uint64_t k = 0; k < peer.taken[i].count; ++k) {
            uint64_t& to = matrices[peer.taken[i].first + k];
            EXPECT_EQ(to, 0) << "each element comes once";
            to = numbers[other->sent[i].first + k];
          }
        }
      }
      for (const MatrixRound::Owned& matrix : round.owned) {
        for (int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
          EXPECT_EQ(matrices[matrix.first + i], matrices[matrix.first] + i) << "in order";
        }
      }
      for (const MatrixPeer& peer : round.peers) {
        const MatrixPeer* const other = of(peer.rank);
        ASSERT_EQ(other->returned.size(), peer.given.size());
        if (peer.rank != owner) moved.back += ElementsOf(peer.given);
        for (size_t i = 0; i < peer.given.size(); ++i) {
          const std::vector<uint64_t> numbers = globals(peer.rank, other->returned[i].block);
          for (uint64_t k = 0; k < peer.given[i].count; ++k) {
            EXPECT_EQ(matrices[peer.given[i].first + k], numbers[other->returned[i].first + k]);
          }
          returned[peer.rank][other->returned[i].block] += peer.given[i].count;
        }
      }
    }
  }
  EXPECT_EQ(group.Division().moved().to_owners, moved.to_owners);
  EXPECT_EQ(group.Division().moved().back, moved.back);
  for (int rank = 0; rank < group.ranks(); ++rank) {
    for (uint32_t b = 0; b < group.blocks(rank).size(); ++b) {
      const DenseLayout::Block& block = group.blocks(rank)[b].block;
      const bool divided = block.of_matrix() && !block.whole_matrix();
      EXPECT_EQ(returned[rank][b], divided ? block.elements() : 0) << "all that is no whole matrix";
    }
  }
}

class MatrixRoundsTest : public ::testing::TestWithParam<Mesh> {};

TEST_P(MatrixRoundsTest, EveryElementComesOnceAndGoesBack) {
  const Group group(TensorsOfTwoBlocks(), GetParam());
  ASSERT_THAT(group.Rounds(0), SizeIs(2)) << "one for each unit";
  ExpectBringsMatricesTogether(group);
}

INSTANTIATE_TEST_SUITE_P(Meshes, MatrixRoundsTest,
                         ::testing::Values(Mesh({.shard = 2}), Mesh({.shard = 5}),
                                           Mesh({.tensor = 2}), Mesh({.tensor = 4}),
                                           Mesh({.shard = 2, .tensor = 2}),
                                           Mesh({.shard = 3, .tensor = 4})));

// Two ranks of a unit have about as much work, and the first matrix goes to another in each unit.
TEST(MatrixOwnersTest, WorkIsDivided) {
  const Group group(TensorsOfTwoBlocks(), Mesh({.tensor = 2}));
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<MatrixRound> rounds = group.Rounds(rank);
    uint64_t work = 0;
    for (const MatrixRound& round : rounds) {
      for (const MatrixRound::Owned& matrix : round.owned) {
        work += matrix.rows * matrix.columns * std::min(matrix.rows, matrix.columns);
      }
    }
    // Two of queries and projections, and two of keys and values.
    EXPECT_EQ(work, 2 * 8 * 8 * 8 + 2 * 4 * 8 * 4);
  }
}

TEST(MatrixOwnersTest, WholeMatricesStayWhereTheyAre) {
  EXPECT_THAT(Group(TensorsOfTwoBlocks(), Mesh({.replica = 3})).Rounds(0), IsEmpty());
}

}  // namespace
}  // namespace muster
