#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_ROWS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_ROWS_H_

#include <cstdint>

#include "common/kernels/transformer/array_loops.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/attention_tiles.h"
#include "common/kernels/transformer/dropout_loops.h"
#include "common/kernels/transformer/tile_product.h"
#include "common/kernels/transformer/vec16.h"

// Forward and backward loops of attention read, pack and write rows by these. Included by them
// alone; see array_loops.h.

namespace muster {
namespace {

// A panel's factors of dropout are made at once.
static_assert(kKeyPanel == kDropoutRun && kAttentionRun % kDropoutRun == 0);

struct HeadLayout {
  int64_t qkv_stride;
  int64_t out_stride;
  int64_t key_stride;
  int64_t padded_D;
  float scale;
};

MUSTER_ALWAYS_INLINE HeadLayout LayoutOf(const AttentionShape& shape, const AttentionPart& part) {
  return {
      .qkv_stride = shape.qkv_stride != 0 ? shape.qkv_stride : (shape.H + 2 * shape.KV) * shape.D,
      .out_stride = shape.out_stride != 0 ? shape.out_stride : shape.H * shape.D,
      .key_stride = part.key_stride != 0 ? part.key_stride : 2 * shape.KV * shape.D,
      .padded_D = PaddedHead(shape.D),
      .scale =
          shape.scale != 0 ? shape.scale : 1.0f / __builtin_sqrtf(static_cast<float>(shape.D))};
}

MUSTER_ALWAYS_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MUSTER_ALWAYS_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
MUSTER_ALWAYS_INLINE int64_t RoundUp16(int64_t n) { return (n + 15) / 16 * 16; }

// Which of the part's keys the part's queries of sequence b see: query t those of [First(t),
// End(t)), which may be none. Neither falls as t grows.
struct Sight {
  MUSTER_ALWAYS_INLINE Sight(const AttentionShape& shape, const AttentionPart& part, int64_t b)
      : keys(part.keys),
        shift(part.first_query - part.first_key),
        window(shape.window),
        positions(shape.token_positions == nullptr ? nullptr
                                                   : shape.token_positions + b * part.query_rows) {}

  MUSTER_ALWAYS_INLINE int64_t First(int64_t t) const {
    const int64_t own = shift + t;
    const int64_t first = positions == nullptr ? 0 : Larger(0, own - positions[t]);
    return window == 0 ? first : Larger(first, own - window + 1);
  }
  MUSTER_ALWAYS_INLINE int64_t End(int64_t t) const {
    return Larger(0, Smaller(keys, shift + t + 1));
  }
  // Returns where the panel of the first key begins.
  MUSTER_ALWAYS_INLINE int64_t FirstPanel(int64_t t) const {
    return First(t) / kKeyPanel * kKeyPanel;
  }

  int64_t keys;
  // Query t's own token is key shift + t.
  int64_t shift;
  int64_t window;
  const int32_t* positions;
};

// Asks for rows of D elements to be brought near: heads lie in rows of many kilobytes, across whose
// pages the machine does not look ahead itself.
enum class Use { kRead, kWrite };
template <Use kUse, typename T>
MUSTER_ALWAYS_INLINE void PrefetchRows(int64_t rows, int64_t D, const T* from, int64_t stride) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < D; i += kLine) {
      __builtin_prefetch(from + r * stride + i, kUse == Use::kWrite ? 1 : 0, 2);
    }
  }
}
// So many rows ahead while rows are copied.
constexpr int64_t kRowsAhead = 16;

// rows of D elements, `stride` apart, to f32 rows of padded_D, zeros behind D, times `factor`.
template <typename T>
void CopyRows(int64_t rows, int64_t D, const T* from, int64_t stride, float factor,
              int64_t padded_D, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    if (r + kRowsAhead < rows) {
      PrefetchRows<Use::kRead>(1, D, from + (r + kRowsAhead) * stride, stride);
    }
    ForVec16(D, [&](int64_t i, int64_t count) {
      Store16(LoadUpTo(from + r * stride + i, count) * factor, to + r * padded_D + i);
    });
  }
}

template <typename T>
void WriteRows(int64_t rows, int64_t D, const float* from, int64_t padded_D, float factor,
               int64_t stride, T* to) {
  for (int64_t r = 0; r < rows; ++r) {
    if (r + kRowsAhead < rows) {
      PrefetchRows<Use::kWrite>(1, D, to + (r + kRowsAhead) * stride, stride);
    }
    ForVec16(D, [&](int64_t i, int64_t count) {
      StoreUpTo(Load16(from + r * padded_D + i) * factor, count, to + r * stride + i);
    });
  }
}

// The same, added to f32.
MUSTER_ALWAYS_INLINE void AddRows(int64_t rows, int64_t D, const float* from, int64_t padded_D,
                                  float factor, int64_t stride, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    ForVec16(D, [&](int64_t i, int64_t count) {
      float* const sum = to + r * stride + i;
      StoreUpTo(LoadUpTo(sum, count) + Load16(from + r * padded_D + i) * factor, count, sum);
    });
  }
}

// rows of f32, padded_D each, to panels [padded_D, 64] of their transpose; `rows` is a multiple of
// 64.
void TransposeToPanels(int64_t rows, int64_t padded_D, const float* from, float* panels) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    float* panel = panels + r / kKeyPanel * kKeyPanel * padded_D + r % kKeyPanel;
    for (int64_t d = 0; d < padded_D; d += kLanes) {
      TransposeBlock(from + r * padded_D + d, padded_D, panel + d * kKeyPanel, kKeyPanel);
    }
  }
}

void FillZero(int64_t n, float* x) {
  ForVec16(n, [&](int64_t i, int64_t count) { StoreUpTo(Vec16{}, count, x + i); });
}

// Lanes [first, count) of those from 0 on.
MUSTER_ALWAYS_INLINE Int16x32 LanesBetween(int64_t first, int64_t count) {
  return first <= 0 ? FirstLanes(count) : FirstLanes(count) & ~FirstLanes(first);
}

// One row's step of online softmax: s[first, count) becomes p, with zeros before it and up to
// `padded` (a multiple of 16).
struct SoftmaxRow {
  float largest;
  float sum;
};

// Returns what earlier sums and outputs are to be multiplied by.
MUSTER_ALWAYS_INLINE float SoftmaxStep(int64_t first, int64_t count, int64_t padded, float* s,
                                       SoftmaxRow* row) {
  const int64_t begin = first / kVec16 * kVec16;
  Vec16 largest = Splat(row->largest);
  for (int64_t i = begin; i < count; i += kVec16) {
    const Vec16 value = Select(LanesBetween(first - i, count - i), Load16(s + i), largest);
    largest = Max16(value, largest);
  }
  const float new_largest = MaxOf16(largest);
  Vec16 sum = {};
  FillZero(begin, s);
  for (int64_t i = begin; i < padded; i += kVec16) {
    const Vec16 p =
        Select(LanesBetween(first - i, count - i), Exp16(Load16(s + i) - new_largest), Vec16{});
    Store16(p, s + i);
    sum += p;
  }
  float correction[kVec16];
  Store16(Exp16(Splat(row->largest - new_largest)), correction);
  row->sum = row->sum * correction[0] + Sum16(sum);
  row->largest = new_largest;
  return correction[0];
}

// Dropout of the probabilities of head h of sequence b, by queries and keys of the part. A panel
// whose keys are a panel of the whole sequence, too, is drawn at once.
struct PanelDropout {
  MUSTER_ALWAYS_INLINE PanelDropout(const AttentionShape& shape, const AttentionPart& part,
                                    const AttentionDropout& dropout, int64_t b, int64_t h)
      : mask(dropout.mask), first_key(part.first_key) {
    const int64_t heads = dropout.heads > 0 ? dropout.heads : shape.H;
    first_row =
        ((dropout.first_example + b) * heads + dropout.first_head + h) * shape.T + part.first_query;
  }

  // Makes the factors of keys [k0, k0 + kKeyPanel).
  MUSTER_ALWAYS_INLINE void Factors(int64_t t, int64_t k0, float* factors) const {
    const int64_t key = first_key + k0;
    if (key % kKeyPanel == 0) return Factors64(*mask, first_row + t, key / kKeyPanel, factors);
    DropoutFactorsLoop(*mask, first_row + t, key, kKeyPanel, factors);
  }

  // p[i] is times the factor of key k0 + i, for i < count; both a multiple of 16.
  MUSTER_ALWAYS_INLINE void Drop(int64_t t, int64_t k0, int64_t count, float* p) const {
    float factors[kKeyPanel];
    for (int64_t i = 0; i < count; i += kKeyPanel) {
      Factors(t, k0 + i, factors);
      for (int64_t j = 0; j < Smaller(kKeyPanel, count - i); j += kVec16) {
        Store16(Load16(p + i + j) * Load16(factors + j), p + i + j);
      }
    }
  }

  // Null: nothing is dropped.
  const DropoutMask* mask;
  int64_t first_key;
  uint64_t first_row;
};

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_ROWS_H_
