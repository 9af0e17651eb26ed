#ifndef MUSTER_COMMON_KERNELS_GEMM_ROW_SUMS_H_
#define MUSTER_COMMON_KERNELS_GEMM_ROW_SUMS_H_

#include <cstdint>

#include "common/kernels/transformer/convert.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// On ComputeThreads() threads; the same bits on any number of them and on every instruction set.
// Thread-safe. T is float, BFloat16 or Float16.

// x[i] = 0 for i < n.
void SetToZero(int64_t n, float* x);

// sums[c] += sum over r of x[r, c], in f32 over 32 equal runs of rows, then the runs in order: the
// gradient of a bias. x is [rows, cols] with `stride` elements from row to row, sums [cols].
template <typename T>
void AddRowSums(int64_t rows, int64_t cols, int64_t stride, const T* x, float* sums);

// x[i] *= factor, for i < n; whether all of them are finite numbers after that: what the gradients
// of a scaled loss need, in one sweep.
bool Unscale(int64_t n, float factor, float* x);

// Whether all of x[i], for i < n, are finite numbers.
bool AllFinite(int64_t n, const float* x);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_GEMM_ROW_SUMS_H_
