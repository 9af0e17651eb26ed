#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/dropout_loops.h"
#include "common/kernels/transformer/norm.h"
#include "common/kernels/transformer/vec16.h"

// Loops of norm.h. Included by vector_kernels_*.cc alone; see array_loops.h. A row is read several
// times, from the first-level cache after the first.

namespace muster {
namespace {

// Factors of dropout are made for so many columns at a time.
constexpr int64_t kFactorColumns = 512;

// Calls f(c, factors of columns c …, count) for the columns of row r in pieces.
template <typename F>
MUSTER_ALWAYS_INLINE void ForDropoutPieces(const DropoutMask& mask, const DropoutShape& dropout,
                                           int64_t width, int64_t r, const F& f) {
  // Elements are counted from the arrays' first example's begin on.
  const int64_t at = dropout.first_element + r * width;
  const int64_t run = dropout.share.Run(dropout.size);
  const ExampleElement place = PlaceInExample(dropout.share, dropout.size, at / run, at % run);
  const uint64_t example = dropout.first_example + place.example;
  const int64_t first = place.element;
  float factors[kFactorColumns];
  for (int64_t c = 0; c < width; c += kFactorColumns) {
    const int64_t count = width - c < kFactorColumns ? width - c : kFactorColumns;
    DropoutFactorsLoop(mask, example, first + c, count, factors);
    f(c, factors, count);
  }
}

// sum = x + branch.
template <typename T>
MUSTER_ALWAYS_INLINE void AddBranch(const NormShape& shape, const NormInputs<T>& in, int64_t r,
                                    float* sum) {
  const float* x = in.x + r * shape.width;
  const T* branch = in.branch + r * shape.width;
  if (in.mask == nullptr) {
    ForVec16(shape.width, [&](int64_t i, int64_t count) {
      StoreUpTo(LoadUpTo(x + i, count) + LoadUpTo(branch + i, count), count, sum + i);
    });
    return;
  }
  ForDropoutPieces(*in.mask, in.dropout, shape.width, r,
                   [&](int64_t c, const float* factors, int64_t columns) {
                     ForVec16(columns, [&](int64_t i, int64_t count) {
                       StoreUpTo(LoadUpTo(x + c + i, count) +
                                     LoadUpTo(branch + c + i, count) * LoadUpTo(factors + i, count),
                                 count, sum + c + i);
                     });
                   });
}

template <typename T>
void NormLoop(const NormShape& shape, const NormInputs<T>& in, const NormOutputs<T>& out,
              int64_t begin, int64_t end) {
  const int64_t C = shape.width;
  const float inverse_width = 1.0f / static_cast<float>(C);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = in.x + r * C;
    if (in.branch != nullptr) {
      AddBranch(shape, in, r, out.sum + r * C);
      x = out.sum + r * C;
    }
    float mean = 0;
    if (shape.kind == NormKind::kLayerNorm) {
      Vec16 sum = {};
      ForVec16(C, [&](int64_t i, int64_t count) { sum += LoadUpTo(x + i, count); });
      mean = Sum16(sum) * inverse_width;
    }
    Vec16 squares = {};
    ForVec16(C, [&](int64_t i, int64_t count) {
      Vec16 centered = LoadUpTo(x + i, count) - mean;
      if (count != kVec16) centered = Select(FirstLanes(count), centered, Vec16{});
      squares += centered * centered;
    });
    const float rstd = 1.0f / __builtin_sqrtf(Sum16(squares) * inverse_width + shape.epsilon);
    ForVec16(C, [&](int64_t i, int64_t count) {
      Vec16 y = (LoadUpTo(x + i, count) - mean) * rstd * LoadUpTo(in.gain + i, count);
      if (in.bias != nullptr) y += LoadUpTo(in.bias + i, count);
      StoreUpTo(y, count, out.out + r * C + i);
    });
    if (shape.kind == NormKind::kLayerNorm) out.mean[r] = mean;
    out.rstd[r] = rstd;
  }
}

// With n = (x - mean) · rstd and g = dout · gain:
//   dx = dsum + rstd · (g - mean(g) - n · mean(g · n)), without mean(g) for kRmsNorm.
template <typename T>
void NormBackwardLoop(const NormShape& shape, const NormBackwardInputs<T>& in,
                      const NormGradients<T>& gradients, int64_t begin, int64_t end,
                      float* gain_sums, float* bias_sums) {
  const int64_t C = shape.width;
  const float inverse_width = 1.0f / static_cast<float>(C);
  const bool centered = shape.kind == NormKind::kLayerNorm;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = in.sum + r * C;
    const T* dout = in.dout + r * C;
    const float* dsum = in.dsum != nullptr ? in.dsum + r * C : nullptr;
    float* dx = gradients.dx + r * C;
    const float mean = centered ? in.mean[r] : 0.0f;
    const float rstd = in.rstd[r];
    Vec16 g_sum = {}, gn_sum = {};
    ForVec16(C, [&](int64_t i, int64_t count) {
      const Vec16 d = LoadUpTo(dout + i, count);
      // Lanes beyond the row have d = 0.
      const Vec16 n = (LoadUpTo(x + i, count) - mean) * rstd;
      const Vec16 g = d * LoadUpTo(in.gain + i, count);
      g_sum += g;
      gn_sum += g * n;
      StoreUpTo(LoadUpTo(gain_sums + i, count) + d * n, count, gain_sums + i);
      if (bias_sums != nullptr) {
        StoreUpTo(LoadUpTo(bias_sums + i, count) + d, count, bias_sums + i);
      }
    });
    const float g_mean = centered ? Sum16(g_sum) * inverse_width : 0.0f;
    const float gn_mean = Sum16(gn_sum) * inverse_width;
    const bool plain_branch = gradients.dbranch != nullptr && in.mask == nullptr;
    ForVec16(C, [&](int64_t i, int64_t count) {
      const Vec16 n = (LoadUpTo(x + i, count) - mean) * rstd;
      const Vec16 g = LoadUpTo(dout + i, count) * LoadUpTo(in.gain + i, count);
      Vec16 d = (g - g_mean - n * gn_mean) * rstd;
      if (dsum != nullptr) d += LoadUpTo(dsum + i, count);
      StoreUpTo(d, count, dx + i);
      if (plain_branch) StoreUpTo(d, count, gradients.dbranch + r * C + i);
    });
    if (gradients.dbranch == nullptr || plain_branch) continue;
    T* dbranch = gradients.dbranch + r * C;
    ForDropoutPieces(*in.mask, in.dropout, C, r,
                     [&](int64_t c, const float* factors, int64_t columns) {
                       ForVec16(columns, [&](int64_t i, int64_t count) {
                         StoreUpTo(LoadUpTo(dx + c + i, count) * LoadUpTo(factors + i, count),
                                   count, dbranch + c + i);
                       });
                     });
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_NORM_LOOPS_H_
