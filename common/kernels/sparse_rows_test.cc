#include "common/kernels/sparse_rows.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Small whole numbers, so that sums are exact.
std::vector<float> RowValues(int64_t n) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 37 % 101 - 50);
  return values;
}

TEST(JoinRowsTest, ByHand) {
  const JoinShape shape = {
      .examples = 2, .lookups = 2, .row_dim = 3, .column = 1, .width = 2, .stride = 5};
  const std::vector<int32_t> index = {1, 0, 1, 1};
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  std::vector<float> joined(10, -1);
  JoinRows(shape, index.data(), rows.data(), joined.data());
  EXPECT_THAT(joined, ElementsAre(5, 6, 2, 3, -1, 5, 6, 5, 6, -1));

  const std::vector<float> gradient = {1, 2, 3, 4, 100, 5, 6, 7, 8, 100};
  std::vector<float> row_gradients(6, 1);
  JoinRowsBackward(shape, index.data(), gradient.data(), row_gradients.data());
  EXPECT_THAT(row_gradients, ElementsAre(1, 4, 5, 1, 14, 17));
}

TEST(JoinRowsTest, BackwardIsTheTransposeAtAllWidths) {
  for (int64_t width : {1, 3, 8, 16, 17, 33}) {
    const JoinShape shape = {.examples = 5,
                             .lookups = 3,
                             .row_dim = width + 2,
                             .column = 1,
                             .width = width,
                             .stride = 3 * width + 4};
    std::vector<int32_t> index(shape.examples * shape.lookups);
    for (size_t i = 0; i < index.size(); ++i) index[i] = i * 5 % 7;
    const std::vector<float> rows = RowValues(7 * shape.row_dim);
    std::vector<float> joined(shape.examples * shape.stride);
    JoinRows(shape, index.data(), rows.data(), joined.data());
    const std::vector<float> gradient = RowValues(joined.size());
    std::vector<float> row_gradients(rows.size());
    JoinRowsBackward(shape, index.data(), gradient.data(), row_gradients.data());
    double forward = 0;
    for (int64_t i = 0; i < shape.examples; ++i) {
      for (int64_t c = 0; c < shape.lookups * width; ++c) {
        forward += joined[i * shape.stride + c] * gradient[i * shape.stride + c];
      }
    }
    double backward = 0;
    for (size_t i = 0; i < rows.size(); ++i) backward += rows[i] * row_gradients[i];
    EXPECT_EQ(forward, backward) << width;
  }
}

TEST(AddWeightedRowsTest, MatchesPlainLoopsAtAllWidths) {
  const std::vector<int64_t> offsets = {0, 4, 4, 5, 9};
  const std::vector<int32_t> index = {0, 1, 2, 1, 0, 3, 3, 2, 1};
  const std::vector<float> values = RowValues(index.size());
  for (int64_t width : {1, 2, 10, 16, 19}) {
    const WeightedRows features = {.examples = 4,
                                   .offsets = offsets.data(),
                                   .values = values.data(),
                                   .index = index.data(),
                                   .row_dim = width + 1,
                                   .width = width};
    const std::vector<float> rows = RowValues(4 * features.row_dim);
    std::vector<float> out = RowValues(4 * width);
    std::vector<float> expected = out;
    const std::vector<float> out_gradient = RowValues(4 * width);
    std::vector<float> row_gradients(rows.size(), 3);
    std::vector<float> expected_gradients = row_gradients;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
        for (int64_t c = 0; c < width; ++c) {
          expected[i * width + c] += values[k] * rows[index[k] * (width + 1) + c];
          expected_gradients[index[k] * (width + 1) + c] += values[k] * out_gradient[i * width + c];
        }
      }
    }
    AddWeightedRows(features, rows.data(), out.data());
    AddWeightedRowsBackward(features, out_gradient.data(), row_gradients.data());
    EXPECT_EQ(out, expected) << width;
    EXPECT_EQ(row_gradients, expected_gradients) << width;
  }
}

TEST(AddWeightedRowsTest, NoFeatures) {
  const std::vector<int64_t> offsets = {0, 0, 0};
  std::vector<float> out(4, 2);
  AddWeightedRows({.examples = 2, .offsets = offsets.data(), .row_dim = 2, .width = 2}, nullptr,
                  out.data());
  EXPECT_THAT(out, Each(2));
}

}  // namespace
}  // namespace muster
