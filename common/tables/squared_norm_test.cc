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

TEST(SquaredNormTest, AddsInDoublePrecision) {
  // In f32 the ones would vanish beside the first square.
  std::vector<float> values(1000, 1);
  values[0] = 1e6;
  EXPECT_EQ(SquaredNorm(values), 1e12 + 999);
}

}  // namespace
}  // namespace muster
