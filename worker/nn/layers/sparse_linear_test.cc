#include "worker/nn/layers/sparse_linear.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(SparseLinearTest, AddsWeightedRows) {
  SparseRows rows;
  rows.inverse = {1, 0, 1};
  rows.rows = {1, 2, 3, 4};
  // The second example has no features.
  const std::vector<int64_t> offsets = {0, 2, 2, 3};
  const std::vector<float> values = {10, 1, -1};
  std::vector<float> out = {100, 100, 200, 200, 300, 300};
  SparseLinear({.row_dim = 2, .width = 2})
      .Forward({}, {.offsets = offsets, .values = values}, rows, absl::MakeSpan(out));
  EXPECT_THAT(out, ElementsAre(131, 142, 200, 200, 297, 296));
}

void CheckGradient(const SparseLinear::Shape& shape) {
  const SparseLinear layer(shape);
  SparseRows rows;
  rows.inverse = {0, 1, 2, 1, 0, 0};
  rows.rows = RandomValues(3 * shape.row_dim, 1);
  const std::vector<int64_t> offsets = {0, 3, 3, 6};
  const std::vector<float> values = RandomValues(6, 2);
  const std::vector<float> out_gradient = RandomValues(3 * shape.width, 3);
  const auto value = [&] {
    std::vector<float> out(3 * shape.width);
    layer.Forward({}, {.offsets = offsets, .values = values}, rows, absl::MakeSpan(out));
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out_gradient[i] * out[i];
    return sum;
  };
  rows.gradients.assign(rows.rows.size(), 1);
  layer.BackwardRows({}, {.offsets = offsets, .values = values}, out_gradient, rows);
  std::vector<float> gradient = rows.gradients;
  for (float& g : gradient) g -= 1;
  ExpectGradient({.what = "rows"}, value, absl::MakeSpan(rows.rows), gradient);
}

TEST(SparseLinearTest, Gradients) {
  CheckGradient({.row_dim = 1, .width = 1});
  CheckGradient({.row_dim = 4, .width = 4});
}

TEST(SparseLinearTest, GradientsOfTheFirstColumns) { CheckGradient({.row_dim = 5, .width = 2}); }

}  // namespace
}  // namespace muster
