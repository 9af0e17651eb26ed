#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/head_norm.h"
#include "common/kernels/transformer/vec16.h"

// Loops of head_norm.h. Included by vector_kernels_*.cc alone; see array_loops.h.

namespace muster {
namespace {

template <typename T>
MUSTER_ALWAYS_INLINE float HeadRstd(const HeadNormShape& shape, const T* x) {
  Vec16 squares = {};
  ForVec16(shape.width, [&](int64_t i, int64_t count) {
    const Vec16 value = LoadUpTo(x + i, count);
    squares += value * value;
  });
  const float mean = Sum16(squares) / static_cast<float>(shape.width);
  return 1.0f / __builtin_sqrtf(mean + shape.epsilon);
}

template <typename T>
void HeadNormLoop(const HeadNormShape& shape, const float* gain, int64_t begin, int64_t end, T* x,
                  T* kept) {
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t g = 0; g < shape.groups; ++g) {
      T* const in = x + r * shape.stride + g * shape.width;
      T* const keep = kept == nullptr ? nullptr : kept + r * shape.kept_stride + g * shape.width;
      const float rstd = HeadRstd(shape, in);
      ForVec16(shape.width, [&](int64_t i, int64_t count) {
        const Vec16 value = LoadUpTo(in + i, count);
        if (keep != nullptr) StoreUpTo(value, count, keep + i);
        StoreUpTo(value * rstd * LoadUpTo(gain + i, count), count, in + i);
      });
    }
  }
}

// Makes dx, with n = x · rstd and g = dy · gain: dx = rstd · (g - n · mean(g · n)).
template <typename T>
void HeadNormBackwardLoop(const HeadNormShape& shape, const T* kept, const float* gain,
                          int64_t begin, int64_t end, T* dx, float* gain_sums) {
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t h = 0; h < shape.groups; ++h) {
      const T* const x = kept + r * shape.kept_stride + h * shape.width;
      T* const d = dx + r * shape.stride + h * shape.width;
      const float rstd = HeadRstd(shape, x);
      Vec16 products = {};
      ForVec16(shape.width, [&](int64_t i, int64_t count) {
        const Vec16 n = LoadUpTo(x + i, count) * rstd;
        const Vec16 dn = LoadUpTo(d + i, count) * n;
        products += dn * LoadUpTo(gain + i, count);
        StoreUpTo(LoadUpTo(gain_sums + i, count) + dn, count, gain_sums + i);
      });
      const float mean = Sum16(products) / static_cast<float>(shape.width);
      ForVec16(shape.width, [&](int64_t i, int64_t count) {
        const Vec16 n = LoadUpTo(x + i, count) * rstd;
        const Vec16 g = LoadUpTo(d + i, count) * LoadUpTo(gain + i, count);
        StoreUpTo((g - n * mean) * rstd, count, d + i);
      });
    }
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_NORM_LOOPS_H_
