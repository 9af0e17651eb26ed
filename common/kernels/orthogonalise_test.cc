#include "common/kernels/orthogonalise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/arrays_for_testing.h"
#include "common/kernels/matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;

struct Extents {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Returns the smallest and the largest eigenvalue of a symmetric matrix [n, n], by Jacobi's
// rotations.
std::pair<double, double> Eigenvalues(std::vector<double> a, int64_t n) {
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p * n + q]) < 1e-14) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
        }
      }
    }
  }
  double least = a[0], most = a[0];
  for (int64_t i = 0; i < n; ++i) {
    least = std::min(least, a[i * n + i]);
    most = std::max(most, a[i * n + i]);
  }
  return {least, most};
}

class OrthogonaliseTest : public ::testing::TestWithParam<Extents> {};

TEST_P(OrthogonaliseTest, SingularValuesComeNearOne) {
  const auto [rows, columns] = GetParam();
  std::vector<float> matrix = RandomArray(rows * columns, 7);
  // A larger diagonal keeps all of them from being tiny beside the largest one.
  for (int64_t i = 0; i < std::min(rows, columns); ++i) matrix[i * columns + i] += 3;
  Orthogonalise(rows, columns, absl::MakeSpan(matrix));
  const int64_t small = std::min(rows, columns), large = std::max(rows, columns);
  std::vector<double> gram(small * small);
  for (int64_t i = 0; i < small; ++i) {
    for (int64_t j = 0; j < small; ++j) {
      for (int64_t k = 0; k < large; ++k) {
        const auto at = [&](int64_t line) {
          return double{matrix[rows <= columns ? line * columns + k : k * columns + line]};
        };
        gram[i * small + j] += at(i) * at(j);
      }
    }
  }
  const auto [least, most] = Eigenvalues(gram, small);
  EXPECT_GT(std::sqrt(least), 0.65);
  EXPECT_LT(std::sqrt(most), 1.25);
}

// A turned matrix gives the turned result.
TEST_P(OrthogonaliseTest, RowsAndColumnsCountAlike) {
  const auto [rows, columns] = GetParam();
  std::vector<float> matrix = RandomArray(rows * columns, 8);
  std::vector<float> turned(matrix.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = matrix[i * columns + j];
  }
  Orthogonalise(rows, columns, absl::MakeSpan(matrix));
  Orthogonalise(columns, rows, absl::MakeSpan(turned));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      EXPECT_NEAR(turned[j * rows + i], matrix[i * columns + j], 1e-4);
    }
  }
}

// Its scale does not matter.
TEST_P(OrthogonaliseTest, DirectionAloneCounts) {
  const auto [rows, columns] = GetParam();
  std::vector<float> matrix = RandomArray(rows * columns, 9);
  std::vector<float> large = matrix;
  for (float& value : large) value *= 4096;
  Orthogonalise(rows, columns, absl::MakeSpan(matrix));
  Orthogonalise(rows, columns, absl::MakeSpan(large));
  for (size_t i = 0; i < matrix.size(); ++i) EXPECT_NEAR(large[i], matrix[i], 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, OrthogonaliseTest,
                         ::testing::Values(Extents{8, 8}, Extents{2, 2}, Extents{12, 40},
                                           Extents{33, 9}, Extents{2, 300}),
                         [](const auto& info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.columns);
                         });

TEST(OrthogonaliseValuesTest, ZerosStayAndNansSpread) {
  std::vector<float> zeros(12);
  Orthogonalise(3, 4, absl::MakeSpan(zeros));
  EXPECT_THAT(zeros, Each(0));
  std::vector<float> values(12, 1);
  values[5] = NAN;
  Orthogonalise(4, 3, absl::MakeSpan(values));
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace muster
