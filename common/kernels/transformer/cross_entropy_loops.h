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

// Sum of x: in f32 over pieces that are small, in f64 over the pieces.
MUSTER_ALWAYS_INLINE double SumOfLogits(int64_t n, const float* x) {
  constexpr int64_t kPiece = 2048;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    Vec16 part = {};
    ForVec16(n - begin < kPiece ? n - begin : kPiece, [&](int64_t i, int64_t count) {
      Vec16 value = LoadUpTo(x + begin + i, count);
      if (count != kVec16) value = Select(FirstLanes(count), value, Vec16{});
      part += value;
    });
    sum += static_cast<double>(Sum16(part));
  }
  return sum;
}

// dx = the row's gradient in the columns that are tokens, of which the label need not be one; 0 in
// padding. dx may lie over x, not ahead of it.
template <typename T>
MUSTER_ALWAYS_INLINE void WriteRowGradient(const LogitsShape& shape, const float* x, int64_t label,
                                           float largest, const RowGradient& gradient, T* dx) {
  const int64_t vocabulary = shape.vocabulary;
  const bool labelled = label >= 0 && label < vocabulary;
  const float label_logit = labelled ? x[label] : 0;
  ForVec16(vocabulary, [&](int64_t i, int64_t count) {
    StoreUpTo(Exp16(LoadUpTo(x + i, count) - largest) * gradient.factor - gradient.each, count,
              dx + i);
  });
  if (labelled) {
    // p - 1 at the label, from its f32 value.
    const Vec16 p = Exp16(Splat(label_logit - largest)) * gradient.factor;
    StoreSome(p - gradient.at_label, 1, dx + label);
  }
  ForVec16(shape.columns - vocabulary,
           [&](int64_t i, int64_t count) { StoreUpTo(Vec16{}, count, dx + vocabulary + i); });
}

template <typename T>
MUSTER_ALWAYS_INLINE void WriteNoGradient(const LogitsShape& shape, T* dx) {
  ForVec16(shape.columns, [&](int64_t i, int64_t count) { StoreUpTo(Vec16{}, count, dx + i); });
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
      if (dx != nullptr) WriteNoGradient(shape, dx);
      continue;
    }
    const float largest = LargestOf(vocabulary, x);
    const double sum = SumOfExp(vocabulary, x, largest);
    const double log_sum = __builtin_log(sum);
    sums.loss += RowLoss(shape.terms,
                         {.log_sum = log_sum,
                          .largest = static_cast<double>(largest),
                          .label = static_cast<double>(x[label]),
                          .sum = shape.terms.smoothing != 0 ? SumOfLogits(vocabulary, x) : 0.0});
    ++sums.tokens;
    if (sum == sum && IsFirstLargest(x, largest, label)) ++sums.correct;
    if (dx == nullptr) continue;
    WriteRowGradient(shape, x, label, largest,
                     RowGradientOf(shape.terms, gradient_scale, sum, log_sum + largest), dx);
  }
  return sums;
}

inline void SoftmaxPartsLoop(const VocabularyShape& shape, const float* logits,
                             const int32_t* labels, SoftmaxPart* parts, int64_t begin,
                             int64_t end) {
  constexpr float kNone = -__builtin_inff();
  const int64_t vocabulary = shape.columns.vocabulary;
  for (int64_t r = begin; r < end; ++r) {
    parts[r] = {kNone, 0, kNone, 0};
    if (labels[r] < 0) continue;
    const float* x = logits + r * shape.columns.columns;
    const float largest = LargestOf(vocabulary, x);
    // While none is above -∞, -∞ - largest would be a NaN.
    float sum = static_cast<float>(SumOfExp(vocabulary, x, largest == kNone ? 0.0f : largest));
    const int64_t label = static_cast<int64_t>(labels[r]) - shape.first_token;
    if (label >= 0 && label < vocabulary) {
      parts[r].label = x[label];
      if (sum == sum && IsFirstLargest(x, largest, static_cast<int32_t>(label))) sum = -sum;
    }
    parts[r].largest = largest;
    parts[r].sum = sum;
    if (shape.columns.terms.smoothing != 0) {
      parts[r].logits = static_cast<float>(SumOfLogits(vocabulary, x));
    }
  }
}

// Rows [begin, end) of `rows`.
template <typename T>
HeadSums CrossEntropyOfPartsLoop(const VocabularyShape& shape, int ranks, const SoftmaxPart* parts,
                                 const float* logits, const int32_t* labels, float gradient_scale,
                                 T* dlogits, int64_t dlogits_stride, int64_t begin, int64_t end) {
  const LogitsShape& columns = shape.columns;
  HeadSums sums;
  for (int64_t r = begin; r < end; ++r) {
    T* dx = dlogits != nullptr ? dlogits + r * dlogits_stride : nullptr;
    if (labels[r] < 0) {
      if (dx != nullptr) WriteNoGradient(columns, dx);
      continue;
    }
    SoftmaxPart all = parts[r];
    bool correct = all.sum < 0;
    for (int rank = 1; rank < ranks; ++rank) {
      const SoftmaxPart& part = parts[rank * columns.rows + r];
      if (part.largest > all.largest) {
        all.largest = part.largest;
        correct = part.sum < 0;
      }
      if (part.label > all.label || part.label != part.label) all.label = part.label;
    }
    double sum = 0, logits_sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const SoftmaxPart& part = parts[rank * columns.rows + r];
      logits_sum += static_cast<double>(part.logits);
      const double own = static_cast<double>(part.sum < 0 ? -part.sum : part.sum);
      // What has no column above -∞ has the sum 0, or a NaN that must stay.
      sum += part.largest == -__builtin_inff()
                 ? own
                 : own * __builtin_exp(static_cast<double>(part.largest) -
                                       static_cast<double>(all.largest));
    }
    const double log_sum = __builtin_log(sum);
    sums.loss += RowLoss(columns.terms, {.log_sum = log_sum,
                                         .largest = static_cast<double>(all.largest),
                                         .label = static_cast<double>(all.label),
                                         .sum = logits_sum});
    ++sums.tokens;
    if (sum == sum && correct) ++sums.correct;
    if (dx == nullptr) continue;
    WriteRowGradient(columns, logits + r * columns.columns,
                     static_cast<int64_t>(labels[r]) - shape.first_token, all.largest,
                     RowGradientOf(columns.terms, gradient_scale, sum, log_sum + all.largest), dx);
  }
  return sums;
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_CROSS_ENTROPY_LOOPS_H_
