#include "common/partition/matrices.h"

#include <string>
#include <vector>

#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorSpec Weights(const std::string& name, int64_t rows, int64_t columns,
                   Placement placement = {}) {
  return {.name = name, .shape = {rows, columns}, .placement = std::move(placement)};
}

Placement ByRows(std::vector<Placement::Section> sections) {
  return {Placement::Kind::kShard, 0, std::move(sections)};
}

// A block of experts beside a dense one, as transformers have them.
std::vector<TensorSpec> TensorsOfModel() {
  std::vector<TensorSpec> tensors = {
      Weights("embedding.weight", 50, 8, ByRows({{50, 50}})),
      Weights("block0.qkv.weight", 16, 8, ByRows({{8, 4}, {4, 2}, {4, 2}})),
      Weights("block0.proj.weight", 8, 8, {Placement::Kind::kShard, 1, {{8, 4}}}),
      Weights("block0.up.weight", 24, 8, ByRows({{12, 12}, {12, 12}})),
      Weights("block0.down.weight", 8, 12, {Placement::Kind::kShard, 1, {{12, 12}}}),
      Weights("block1.router.weight", 3, 8),
      Weights("block1.experts.up.weight", 3 * 10, 8,
              {.kind = Placement::Kind::kExperts, .sections = {{30, 3}}}),
      Weights("block1.experts.down.weight", 3 * 8, 5,
              {.kind = Placement::Kind::kExperts, .sections = {{24, 3}}}),
      Weights("block1.shared.up.weight", 14, 8),
      Weights("block1.shared.down.weight", 8, 7),
      Weights("block1.shared_gate.weight", 1, 8),
      Weights("block1.query.adapter.down", 2, 8, ByRows({{2, 1}})),
      Weights("head.weight", 50, 8)};
  tensors.push_back({.name = "block0.norm1.weight", .shape = {8}});
  return tensors;
}

std::vector<int64_t> RowsOf(const std::string& name, const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name == name) return tensor.matrix_rows;
  }
  return {-1};
}

TEST(MatricesTest, MatricesOfHiddenLayersAreTakenApart) {
  std::vector<TensorSpec> tensors = TensorsOfModel();
  SetMatrices(absl::MakeSpan(tensors));
  EXPECT_THAT(RowsOf("block0.qkv.weight", tensors), ElementsAre(8, 4, 4));
  EXPECT_THAT(RowsOf("block0.proj.weight", tensors), ElementsAre(8));
  EXPECT_THAT(RowsOf("block0.up.weight", tensors), ElementsAre(12, 12));
  EXPECT_THAT(RowsOf("block0.down.weight", tensors), ElementsAre(8));
  EXPECT_THAT(RowsOf("block1.router.weight", tensors), ElementsAre(3));
  EXPECT_THAT(RowsOf("block1.experts.up.weight", tensors), ElementsAre(5, 5, 5, 5, 5, 5));
  EXPECT_THAT(RowsOf("block1.experts.down.weight", tensors), ElementsAre(8, 8, 8));
  EXPECT_THAT(RowsOf("block1.shared.up.weight", tensors), ElementsAre(7, 7));
  EXPECT_THAT(RowsOf("block1.query.adapter.down", tensors), ElementsAre(2));
  for (const char* name :
       {"embedding.weight", "head.weight", "block1.shared_gate.weight", "block0.norm1.weight"}) {
    EXPECT_THAT(RowsOf(name, tensors), IsEmpty()) << name;
  }
}

TEST(MatricesTest, PerceptronsHaveThoseOfHiddenLayers) {
  std::vector<TensorSpec> tensors = {Weights("hidden0.weight", 6, 4),
                                     Weights("output.weight", 3, 6),
                                     Weights("hidden1.weight", 6, 6)};
  tensors[2].frozen = true;
  SetMatrices(absl::MakeSpan(tensors));
  EXPECT_THAT(tensors[0].matrix_rows, ElementsAre(6));
  EXPECT_THAT(tensors[1].matrix_rows, IsEmpty());
  EXPECT_THAT(tensors[2].matrix_rows, IsEmpty()) << "frozen";
}

// Each is a block, larger than others may be, behind what else has its rate and decay.
TEST(MatricesTest, MatricesAreBlocks) {
  std::vector<TensorSpec> tensors = {Weights("block0.qkv.weight", 6, 4, ByRows({{4, 2}, {2, 1}})),
                                     Weights("other.weight", 5, 2)};
  SetMatrices(absl::MakeSpan(tensors));
  const DenseLayout layout = DenseLayout::Create(tensors, {.block_bytes = 16}).value();
  EXPECT_EQ(layout.tensor_offset(0), 10);
  ASSERT_EQ(layout.blocks().size(), 3 + 2);
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(layout.blocks()[i].of_matrix());
  const DenseLayout::Block& first = layout.blocks()[3];
  EXPECT_THAT((std::vector<int64_t>{first.rows, first.columns}), ElementsAre(4, 4));
  EXPECT_EQ(first.elements(), 16);
  EXPECT_TRUE(first.whole_matrix());
  EXPECT_EQ(layout.blocks()[4].elements(), 8);
}

// Shares of tensor ranks have parts of each matrix, and say which.
TEST(MatricesTest, SharesKnowTheirMatrices) {
  std::vector<TensorSpec> tensors = TensorsOfModel();
  SetMatrices(absl::MakeSpan(tensors));
  const auto shares = LocalTensors(tensors, {Mesh({.tensor = 2})}, /*rank=*/1).value();
  const std::vector<MatrixShare> qkv = MatrixShares(shares[1]);
  ASSERT_EQ(qkv.size(), 3);
  EXPECT_EQ(qkv[0].end - qkv[0].begin, 4 * 8);
  EXPECT_EQ(qkv[1].begin, 4 * 8);
  EXPECT_EQ(qkv[1].end, 6 * 8);
  EXPECT_EQ(qkv[1].global_begin, 8 * 8);
  EXPECT_EQ(qkv[1].global_end(), 12 * 8);
  EXPECT_EQ(qkv[1].rows, 4);
  const std::vector<MatrixShare> proj = MatrixShares(shares[2]);
  ASSERT_EQ(proj.size(), 1);
  EXPECT_EQ(proj[0].end, 8 * 4) << "half of the columns";
  EXPECT_EQ(proj[0].columns, 8);

  const DenseLayout layout = DenseLayout::Create(shares, {}).value();
  for (const DenseLayout::Block& block : layout.blocks()) {
    // Every rank has the whole router, experts and adapter.
    if (block.of_matrix()) EXPECT_EQ(block.whole_matrix(), block.pieces[0].tensor >= 5);
  }
}

// An expert rank has whole matrices of its experts.
TEST(MatricesTest, ExpertRanksHaveWholeMatrices) {
  std::vector<TensorSpec> tensors = {
      Weights("block0.experts.up.weight", 4 * 6, 5,
              {.kind = Placement::Kind::kExperts, .sections = {{24, 4}}})};
  SetMatrices(absl::MakeSpan(tensors));
  const auto shares =
      LocalTensors(tensors, {Mesh({.replica = 2, .expert = 2}).Only(kShareAxes)}, /*rank=*/1)
          .value();
  const std::vector<MatrixShare> own = MatrixShares(shares[0]);
  ASSERT_EQ(own.size(), 2);
  EXPECT_EQ(own[0].global_begin, 2 * 6 * 5);
  EXPECT_EQ(own[1].global_end(), 4 * 6 * 5);
}

}  // namespace
}  // namespace muster
