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

TEST(SquaredNormTest, OfCellsIsTheSumOfTheirSums) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<double> norms;
  SquaredNorms(values, {.first = 1, .step = 2}, [&](double norm) { norms.push_back(norm); });
  EXPECT_EQ(norms, (std::vector<double>{1, 4 + 9, 16 + 25, 36}));
  EXPECT_EQ(SquaredNorm(values, {.first = 1, .step = 2}), 91);
  EXPECT_EQ(SquaredNorm(values, {.first = 8, .step = 8}), 91);
  EXPECT_EQ(SquaredNorm({}, {.first = 8, .step = 8}), 0);
}

TEST(SquaredNormTest, OfAStretchOfWholeCellsAddsTheSameBits) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 3);
  double sum = 0;
  const auto add = [&sum](double norm) { sum += norm; };
  SquaredNorms(absl::MakeSpan(values).first(40), {.first = 8, .step = 32}, add);
  SquaredNorms(absl::MakeSpan(values).subspan(40), {.first = 32, .step = 32}, add);
  EXPECT_EQ(sum, SquaredNorm(values, {.first = 8, .step = 32}));
}

TEST(SquaredNormTest, AddsInDoublePrecision) {
  // In f32 the ones would vanish beside the first square.
  std::vector<float> values(1000, 1);
  values[0] = 1e6;
  EXPECT_EQ(SquaredNorm(values), 1e12 + 999);
}

}  // namespace
}  // namespace muster
