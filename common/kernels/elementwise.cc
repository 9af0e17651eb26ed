#include "common/kernels/elementwise.h"

#include <cstring>

#include "common/base/machine/simd_clones.h"

namespace muster {
namespace {

MUSTER_ALWAYS_INLINE void Add(int64_t n, const float* __restrict x, float* __restrict y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace

MUSTER_SIMD_CLONES
void AddBias(int64_t rows, int64_t cols, const float* bias, float* y) {
  for (int64_t r = 0; r < rows; ++r) Add(cols, bias, y + r * cols);
}

MUSTER_SIMD_CLONES
void AddBiasGradient(int64_t rows, int64_t cols, const float* dy, float* bias_gradient) {
  for (int64_t r = 0; r < rows; ++r) Add(cols, dy + r * cols, bias_gradient);
}

// Both ReLUs ask for what becomes 0, not for what passes: a comparison with NaN is false, so NaN
// passes.
MUSTER_SIMD_CLONES
void Relu(int64_t n, const float* x, float* y) {
  MUSTER_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

MUSTER_SIMD_CLONES
void ReluBackward(int64_t n, const float* y, const float* dy, float* dx) {
  MUSTER_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

void GatherRows(int64_t count, int64_t dim, const int32_t* index, const float* table, float* rows) {
  if (dim == 0) return;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(rows + i * dim, table + index[i] * dim, dim * sizeof(float));
  }
}

MUSTER_SIMD_CLONES
void ScatterAddRows(int64_t count, int64_t dim, const int32_t* index, const float* rows,
                    float* table) {
  for (int64_t i = 0; i < count; ++i) Add(dim, rows + i * dim, table + index[i] * dim);
}

MUSTER_SIMD_CLONES
void AddScaled(int64_t n, float alpha, const float* __restrict x, float* __restrict y) {
  for (int64_t i = 0; i < n; ++i) y[i] += alpha * x[i];
}

MUSTER_SIMD_CLONES
void AddArrays(int64_t n, const float* __restrict x, const float* __restrict y,
               float* __restrict sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + y[i];
}

MUSTER_SIMD_CLONES
double SquaredSum(int64_t n, const float* x) {
  // The lanes fix one order of summation that any vector width can follow.
  constexpr int64_t kLanes = kSquaredSumLanes;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double value = x[i + l];
      lanes[l] += value * value;
    }
  }
  for (int64_t l = 0; i + l < n; ++l) {
    const double value = x[i + l];
    lanes[l] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace muster
