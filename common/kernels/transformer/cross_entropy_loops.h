#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/cross_entropy_rows.h"
#include "common/kernels/transformer/vec16.h"

// Loops of cross_entropy_rows.h. Included by vector_kernels_*.cc alone; see array_loops.h.

namespace muster {
namespace {

MUSTER_ALWAYS_INLINE float LargestOf(int64_t n, const float* x) {
  Vec16 largest = Splat(-__builtin_inff());
  ForVec16(n, [&](int64_t i, int64_t count) {
    Vec16 value = LoadUpTo(x + i, count);
    if (count != kVec16) value = Select(FirstLanes(count), value, largest);
    largest = Max16(value, largest);
  });
  return MaxOf16(largest);
}

// Sum of e^(x - largest): in f32 over pieces that are small, in f64 over the pieces.
MUSTER_ALWAYS_INLINE double SumOfExp(int64_t n, const float* x, float largest) {
  constexpr int64_t kPiece = 2048;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    Vec16 part = {};
    ForVec16(n - begin < kPiece ? n - begin : kPiece, [&](int64_t i, int64_t count) {
      Vec16 e = Exp16(LoadUpTo(x + begin + i, count) - largest);
      if (count != kVec16) e = Select(FirstLanes(count), e, Vec16{});
      part += e;
    });
    sum += static_cast<double>(Sum16(part));
  }
  return sum;
}

// Whether x[label] is the largest, and no element before it is as large.
MUSTER_ALWAYS_INLINE bool IsFirstLargest(const float* x, float largest, int32_t label) {
  if (!(x[label] == largest)) return false;
  for (int32_t i = 0; i < label; ++i) {
    if (x[i] == largest) return false;
  }
  return true;
}

template <typename T>
HeadSums CrossEntropyLoop(const LogitsShape& shape, const float* logits, const int32_t* labels,
                          float gradient_scale, T* dlogits, int64_t dlogits_stride, int64_t begin,
                          int64_t end) {
  const int64_t vocabulary = shape.vocabulary;
  HeadSums sums;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = logits + r * shape.columns;
    T* dx = dlogits != nullptr ? dlogits + r * dlogits_stride : nullptr;
    const int32_t label = labels[r];
    if (label < 0) {
      if (dx != nullptr) {
        ForVec16(shape.columns,
                 [&](int64_t i, int64_t count) { StoreUpTo(Vec16{}, count, dx + i); });
      }
      continue;
    }
    const float largest = LargestOf(vocabulary, x);
    const double sum = SumOfExp(vocabulary, x, largest);
    const double loss =
        __builtin_log(sum) - (static_cast<double>(x[label]) - static_cast<double>(largest));
    sums.loss += loss;
    ++sums.tokens;
    if (sum == sum && IsFirstLargest(x, largest, label)) ++sums.correct;
    if (dx == nullptr) continue;
    const float factor = static_cast<float>(gradient_scale / sum);
    // dlogits may lie over this row's logits, not ahead of them.
    const float label_logit = x[label];
    ForVec16(vocabulary, [&](int64_t i, int64_t count) {
      StoreUpTo(Exp16(LoadUpTo(x + i, count) - largest) * factor, count, dx + i);
    });
    // p - 1 at the label, from its f32 value.
    const Vec16 p = Exp16(Splat(label_logit - largest)) * factor;
    StoreSome(p - gradient_scale, 1, dx + label);
    ForVec16(shape.columns - vocabulary,
             [&](int64_t i, int64_t count) { StoreUpTo(Vec16{}, count, dx + vocabulary + i); });
  }
  return sums;
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_LOOPS_H_
