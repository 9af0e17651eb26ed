#include "common/kernels/orthogonalise.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/kernels/aligned_floats.h"
#include "common/kernels/matmul.h"
#include "common/kernels/orthogonalise_scratch.h"
#include "common/kernels/parallel_for.h"

namespace muster {
namespace {

constexpr int kIterations = 5;
constexpr float kLinear = 3.4445f;
constexpr float kCubic = -4.7750f;
constexpr float kQuintic = 2.0315f;
constexpr double kEpsilon = 1e-7;
// Elements whose squares are added up by themselves.
constexpr int64_t kNormGrain = 1 << 14;
// Rows of A that are worth a thread.
constexpr int64_t kRowGrain = 16;

double Norm(absl::Span<const float> values) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<double> sums((n + kNormGrain - 1) / kNormGrain);
  ParallelFor(n, kNormGrain, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += double{values[i]} * values[i];
    sums[begin / kNormGrain] = sum;
  });
  double squared = 0;
  for (const double sum : sums) squared += sum;
  return std::sqrt(squared);
}

}  // namespace

void Orthogonalise(int64_t rows, int64_t columns, absl::Span<float> matrix) {
  if (matrix.empty()) return;
  static thread_local AlignedFloats scratch;
  const int64_t n = rows * columns;
  const int64_t small = std::min(rows, columns);
  const bool tall = rows > columns;
  // The iterations write the two in turn, and the last one, of an odd number, the matrix.
  float* x = scratch.Reserve(OrthogonaliseScratch(rows, columns));
  float* const a = x + n;
  float* const b = a + small * small;
  float* next = matrix.data();

  const auto scale = static_cast<float>(1 / (Norm(matrix) + kEpsilon));
  ParallelFor(n, kNormGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = scale * matrix[i];
  });
  for (int i = 0; i < kIterations; ++i) {
    Matmul(tall ? Transpose::kYes : Transpose::kNo, tall ? Transpose::kNo : Transpose::kYes, small,
           small, tall ? rows : columns, x, x, Accumulation::kWrite, a);
    Matmul(Transpose::kNo, Transpose::kNo, small, small, small, a, a, Accumulation::kWrite, b);
    ParallelFor(small, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* const from = a + row * small;
        float* const to = b + row * small;
        for (int64_t j = 0; j < small; ++j) to[j] = kCubic * from[j] + kQuintic * to[j];
        to[row] += kLinear;
      }
    });
    if (tall) {
      Matmul(Transpose::kNo, Transpose::kNo, rows, columns, columns, x, b, Accumulation::kWrite,
             next);
    } else {
      Matmul(Transpose::kNo, Transpose::kNo, rows, columns, rows, b, x, Accumulation::kWrite, next);
    }
    std::swap(x, next);
  }
}

}  // namespace muster
