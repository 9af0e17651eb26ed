#include "common/tables/squared_norm.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

TEST(SquaredNormTest, SumsSquaresOfAnyNumberOfElements) {
  for (const int n : {0, 1, 7, 8, 9, 1000}) {
    std::vector<float> values(n);
    double expected = 0;
    for (int i = 0; i < n; ++i) {
      values[i] = i - 3;
      expected += (i - 3.0) * (i - 3.0);
    }
    EXPECT_EQ(SquaredNorm(values), expected) << n;
  }
}

TEST(SquaredNormTest, OfRowsHasTheBitsOfTheirConcatenation) {
  for (uint32_t dim : {1, 3, 8, 13, 64}) {
    std::vector<float> values(5 * dim);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 3);
    std::vector<const float*> rows;
    for (int row = 0; row < 5; ++row) rows.push_back(&values[row * dim]);
    EXPECT_EQ(SquaredNorm(rows, dim), SquaredNorm(values)) << dim;
  }
}

TEST(SquaredNormTest, AddsInDoublePrecision) {
  // In f32 the ones would vanish beside the first square.
  std::vector<float> values(1000, 1);
  values[0] = 1e6;
  EXPECT_EQ(SquaredNorm(values), 1e12 + 999);
}

}  // namespace
}  // namespace muster
