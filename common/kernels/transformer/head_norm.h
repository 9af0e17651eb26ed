#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_H_

#include <cstdint>

#include "common/tensor/bfloat16.h"

namespace muster {

// RMSNorms of queries or of keys, which lie beside other columns: each of the first `groups`
// vectors of `width` elements in every row of x is normalised by itself,
//   y = x · rstd · gain,  rstd = 1 / sqrt(mean of x² + epsilon).
// A group is a head, with weights that heads share, or all heads together.
//
// Arithmetic is f32; sums within a group run in 16 lanes that are joined in one order: for one
// instruction set the same bits on any number of threads. On ComputeThreads() threads; thread-safe.
struct HeadNormShape {
  int64_t rows = 0;
  int64_t groups = 0;
  // Elements of a group, at least 1.
  int64_t width = 0;
  // Elements from one row of x, and of what is kept of it, to the next; at least groups · width.
  int64_t stride = 0;
  int64_t kept_stride = 0;
  float epsilon = 1e-5f;
};

// In place; T is float, BFloat16 or Float16. `kept` becomes what x was, for backward; null: nobody
// reads it. `gain` is [width].
template <typename T>
void HeadNorm(const HeadNormShape& shape, const float* gain, T* x, T* kept);

// Replaces the gradient of y by that of x, in place, and adds that of the gain to `gain_gradient`
// [width]: sums are in f32, over 32 equal runs of rows, then over the runs in order.
template <typename T>
void HeadNormBackward(const HeadNormShape& shape, const T* kept, const float* gain, T* dx,
                      float* gain_gradient);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_H_
