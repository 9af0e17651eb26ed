#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/array_loops.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/attention_tiles.h"
#include "common/kernels/transformer/dropout_loops.h"
#include "common/kernels/transformer/tile_product.h"
#include "common/kernels/transformer/vec16.h"

// Loops of attention.h. Included by vector_kernels_*.cc alone; see array_loops.h.
//
// Keys go by panels of 64, kept transposed, so that a product of queries and keys runs along keys:
// a panel of keys or values (16 KiB for D = 64) stays in the first-level cache while the row blocks
// of a tile of queries pass over it. Row blocks of six queries begin with the panel of the first
// key that their first query sees, and stop at the diagonal: what lies beyond is neither computed
// nor read, but for the rest of a vector.
//
// Forward, for a tile of queries and runs of kAttentionRun keys: s = q kᵀ (q scaled); per row the
// new maximum m', p = e^(s - m'); sums and output so far times e^(m - m'); o += f p v, f being
// dropout's factors.
// Backward, for a tile of queries and a panel of keys: p = e^(s - logsumexp); dv += (f p)ᵀ do; ds =
// p · (f do vᵀ - δ) with δ = do · o per row; dq += ds k; dk += dsᵀ q.
//
// All of it is written for an AttentionPart. Attention of whole sequences is the part whose keys
// are its queries' own tokens. A part's forward goes on from the state {logsumexp, 1, out} that the
// parts before it left.

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
        positions(shape.token_positions == nullptr ? nullptr
                                                   : shape.token_positions + b * part.query_rows) {}

  MUSTER_ALWAYS_INLINE int64_t First(int64_t t) const {
    return positions == nullptr ? 0 : Larger(0, shift + t - positions[t]);
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

  // Of keys [k0, k0 + kKeyPanel).
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

// Writes the results of `count` queries of a part, the first one's at out_place and `row`, that
// have seen no key. Where the part is merged with others, what is there stays.
template <typename T>
void WriteNothingSeen(const AttentionLoopArrays<T>& arrays, int64_t D, int64_t out_place,
                      int64_t out_stride, int64_t row, int64_t count) {
  if (arrays.accumulation == Accumulation::kAdd) return;
  for (int64_t r = 0; r < count; ++r) {
    FillZero(D, arrays.part_out + out_place + r * out_stride);
    arrays.logsumexp[row + r] = -__builtin_inff();
  }
}

template <typename T>
void AttentionLoop(const AttentionShape& shape, const AttentionPart& part,
                   const AttentionDropout& dropout, const AttentionLoopArrays<T>& arrays, int64_t b,
                   int64_t h, int64_t begin, int64_t end, float* scratch) {
  const HeadLayout layout = LayoutOf(shape, part);
  const int64_t D = shape.D, padded_D = layout.padded_D;
  const int64_t kv = h / (shape.H / shape.KV);
  const Sight sight(shape, part, b);
  const PanelDropout drop(shape, part, dropout, b, h);
  const bool continues = arrays.accumulation == Accumulation::kAdd;
  const int64_t row0 = (b * shape.H + h) * part.query_rows;
  const int64_t out0 = b * part.query_rows * layout.out_stride + h * D;
  // Keys [first, seen) are packed.
  const int64_t first = sight.FirstPanel(begin);
  const int64_t seen = sight.End(end - 1);
  if (seen <= sight.First(begin)) {
    return WriteNothingSeen(arrays, D, out0 + begin * layout.out_stride, layout.out_stride,
                            row0 + begin, end - begin);
  }
  const int64_t keys = PaddedKeys(seen - first);
  float* kt = scratch;
  float* v = kt + keys * padded_D;
  float* q = v + keys * padded_D;
  float* o = q + kQueryTile * padded_D;
  float* s = o + kQueryTile * padded_D;
  SoftmaxRow rows[kQueryTile];

  const T* queries = arrays.queries + b * part.query_rows * layout.qkv_stride + h * D;
  const T* key_rows = arrays.keys + (b * part.key_rows + first) * layout.key_stride + kv * D;
  // v's place holds the keys until they are transposed.
  CopyRows(seen - first, D, key_rows, layout.key_stride, 1, padded_D, v);
  FillZero((keys - seen + first) * padded_D, v + (seen - first) * padded_D);
  TransposeToPanels(keys, padded_D, v, kt);
  CopyRows(seen - first, D, key_rows + shape.KV * D, layout.key_stride, 1, padded_D, v);

  for (int64_t q0 = begin; q0 < end; q0 += kQueryTile) {
    const int64_t n = Smaller(kQueryTile, end - q0);
    CopyRows(n, D, queries + q0 * layout.qkv_stride, layout.qkv_stride, layout.scale, padded_D, q);
    const int64_t next = Smaller(kQueryTile, end - q0 - n);
    PrefetchRows<Use::kRead>(next, D, queries + (q0 + n) * layout.qkv_stride, layout.qkv_stride);
    const int64_t out_place = out0 + q0 * layout.out_stride;
    if (continues) {
      CopyRows(n, D, arrays.part_out + out_place, layout.out_stride, 1, padded_D, o);
      for (int64_t i = 0; i < n; ++i) {
        const float logsumexp = arrays.logsumexp[row0 + q0 + i];
        rows[i] = {logsumexp, logsumexp == -__builtin_inff() ? 0.0f : 1.0f};
      }
    } else {
      if (arrays.out != nullptr) {
        PrefetchRows<Use::kWrite>(n, D, arrays.out + out_place, layout.out_stride);
      }
      FillZero(n * padded_D, o);
      for (int64_t i = 0; i < n; ++i) rows[i] = {-__builtin_inff(), 0};
    }
    const int64_t first_run = sight.FirstPanel(q0);
    const int64_t tile_end = sight.End(q0 + n - 1);
    for (int64_t k0 = first_run; k0 < tile_end; k0 += kAttentionRun) {
      for (int64_t k = k0; k < Smaller(k0 + kAttentionRun, tile_end); k += kKeyPanel) {
        for (int64_t r = 0; r < n; r += kBlockRows) {
          const int64_t count = Smaller(kBlockRows, n - r);
          const int64_t visible = sight.End(q0 + r + count - 1) - k;
          if (visible <= 0 || k < sight.FirstPanel(q0 + r)) continue;
          Product<Layout::kRows>(count, Smaller(kKeyPanel, RoundUp16(visible)),
                                 {.depth = D,
                                  .a = q + r * padded_D,
                                  .a_stride = padded_D,
                                  .b = kt + (k - first) * padded_D,
                                  .b_stride = kKeyPanel,
                                  .c = s + r * kAttentionRun + k - k0,
                                  .c_stride = kAttentionRun,
                                  .add = false});
        }
      }
      for (int64_t r = 0; r < n; ++r) {
        const int64_t count = Smaller(kAttentionRun, sight.End(q0 + r) - k0);
        const int64_t before = Larger(0, sight.First(q0 + r) - k0);
        const int64_t block_end = Smaller(r / kBlockRows * kBlockRows + kBlockRows, n);
        const int64_t padded =
            Smaller(kAttentionRun, RoundUp16(sight.End(q0 + block_end - 1) - k0));
        float* p = s + r * kAttentionRun;
        if (count <= before) {
          // Other rows of its block see some of these keys.
          if (padded > 0) FillZero(padded, p);
          continue;
        }
        const float correction = SoftmaxStep(before, count, padded, p, &rows[r]);
        if (drop.mask != nullptr) drop.Drop(q0 + r, k0, padded, p);
        if ((continues || k0 > first_run) && correction != 1.0f) {
          float* o_row = o + r * padded_D;
          for (int64_t i = 0; i < padded_D; i += kVec16) {
            Store16(Load16(o_row + i) * correction, o_row + i);
          }
        }
      }
      for (int64_t k = k0; k < Smaller(k0 + kAttentionRun, tile_end); k += kKeyPanel) {
        for (int64_t r = 0; r < n; r += kBlockRows) {
          const int64_t count = Smaller(kBlockRows, n - r);
          const int64_t visible = sight.End(q0 + r + count - 1) - k;
          if (visible <= 0 || k < sight.FirstPanel(q0 + r)) continue;
          Product<Layout::kRows>(count, padded_D,
                                 {.depth = Smaller(kKeyPanel, visible),
                                  .a = s + r * kAttentionRun + k - k0,
                                  .a_stride = kAttentionRun,
                                  .b = v + (k - first) * padded_D,
                                  .b_stride = padded_D,
                                  .c = o + r * padded_D,
                                  .c_stride = padded_D,
                                  .add = true});
        }
      }
    }
    for (int64_t r = 0; r < n; ++r) {
      const int64_t place = out_place + r * layout.out_stride;
      if (arrays.out != nullptr) {
        WriteRows(1, D, o + r * padded_D, padded_D, 1.0f / rows[r].sum, layout.out_stride,
                  arrays.out + place);
      } else if (rows[r].sum == 0) {
        WriteNothingSeen(arrays, D, place, layout.out_stride, row0 + q0 + r, 1);
        continue;
      } else {
        WriteRows(1, D, o + r * padded_D, padded_D, 1.0f / rows[r].sum, layout.out_stride,
                  arrays.part_out + place);
      }
      if (arrays.logsumexp != nullptr) {
        arrays.logsumexp[row0 + q0 + r] = rows[r].largest + __builtin_logf(rows[r].sum);
      }
    }
  }
}

// Places in the scratch of a backward unit.
struct BackwardScratch {
  // The first key of the arrays of keys.
  int64_t first;
  float *kt, *vt, *k, *dk, *dv;
  float *q, *dout, *dq, *p, *ds, *delta, *logsumexp;
};

// p and ds of rows [first, end) of a tile of queries from q0 on, for the panel of keys from k0 on:
// first s and do vᵀ, then in place.
MUSTER_ALWAYS_INLINE void BackwardProbabilities(const Sight& sight, const BackwardScratch& m,
                                                int64_t D, int64_t padded_D, int64_t q0, int64_t k0,
                                                int64_t first, int64_t end) {
  for (int64_t r = first; r < end; r += kBlockRows) {
    const int64_t count = Smaller(kBlockRows, end - r);
    const int64_t columns = Smaller(kKeyPanel, RoundUp16(sight.End(q0 + r + count - 1) - k0));
    Product<Layout::kRows>(count, columns,
                           {.depth = D,
                            .a = m.q + r * padded_D,
                            .a_stride = padded_D,
                            .b = m.kt + (k0 - m.first) * padded_D,
                            .b_stride = kKeyPanel,
                            .c = m.p + r * kKeyPanel,
                            .c_stride = kKeyPanel,
                            .add = false});
    Product<Layout::kRows>(count, columns,
                           {.depth = D,
                            .a = m.dout + r * padded_D,
                            .a_stride = padded_D,
                            .b = m.vt + (k0 - m.first) * padded_D,
                            .b_stride = kKeyPanel,
                            .c = m.ds + r * kKeyPanel,
                            .c_stride = kKeyPanel,
                            .add = false});
  }
}

// Row r sees keys [before, visible) of the panel. `factors`: dropout's of the row and panel; null:
// nothing is dropped.
MUSTER_ALWAYS_INLINE void BackwardSoftmax(const BackwardScratch& m, int64_t before, int64_t visible,
                                          int64_t r, const float* factors) {
  float* p = m.p + r * kKeyPanel;
  float* ds = m.ds + r * kKeyPanel;
  for (int64_t i = 0; i < kKeyPanel; i += kVec16) {
    if (i >= visible || i + kVec16 <= before) {
      Store16(Vec16{}, p + i);
      Store16(Vec16{}, ds + i);
      continue;
    }
    const Int16x32 seen = LanesBetween(before - i, visible - i);
    const Vec16 probability = Select(seen, Exp16(Load16(p + i) - m.logsumexp[r]), Vec16{});
    const Vec16 factor = factors != nullptr ? Load16(factors + i) : Splat(1);
    const Vec16 gradient = Load16(ds + i) * factor - m.delta[r];
    Store16(Select(seen, probability * gradient, Vec16{}), ds + i);
    Store16(probability * factor, p + i);
  }
}

// dk, dv of the panel and dq of the tile's rows [first, end).
MUSTER_ALWAYS_INLINE void BackwardProducts(const Sight& sight, const BackwardScratch& m,
                                           int64_t padded_D, int64_t q0, int64_t k0, int64_t first,
                                           int64_t end) {
  const int64_t keys = Smaller(kKeyPanel, sight.End(q0 + end - 1) - k0);
  const int64_t packed = k0 - m.first;
  for (int64_t j = 0; j < keys; j += kBlockRows) {
    const int64_t count = Smaller(kBlockRows, keys - j);
    // Earlier queries do not see these keys.
    const int64_t r = Larger(first, k0 + j - sight.shift - q0);
    Tile tile = {.depth = end - r,
                 .a = m.p + r * kKeyPanel + j,
                 .a_stride = kKeyPanel,
                 .b = m.dout + r * padded_D,
                 .b_stride = padded_D,
                 .c = m.dv + (packed + j) * padded_D,
                 .c_stride = padded_D,
                 .add = true};
    Product<Layout::kTransposed>(count, padded_D, tile);
    tile.a = m.ds + r * kKeyPanel + j;
    tile.b = m.q + r * padded_D;
    tile.c = m.dk + (packed + j) * padded_D;
    Product<Layout::kTransposed>(count, padded_D, tile);
  }
  for (int64_t r = first; r < end; r += kBlockRows) {
    const int64_t count = Smaller(kBlockRows, end - r);
    Product<Layout::kRows>(count, padded_D,
                           {.depth = Smaller(kKeyPanel, sight.End(q0 + r + count - 1) - k0),
                            .a = m.ds + r * kKeyPanel,
                            .a_stride = kKeyPanel,
                            .b = m.k + packed * padded_D,
                            .b_stride = padded_D,
                            .c = m.dq + r * padded_D,
                            .c_stride = padded_D,
                            .add = true});
  }
}

// out · dout of a row's head.
template <typename T>
MUSTER_ALWAYS_INLINE float DeltaOf(int64_t D, const T* out, const T* dout) {
  Vec16 delta = {};
  ForVec16(D, [&](int64_t i, int64_t count) {
    delta += LoadUpTo(out + i, count) * LoadUpTo(dout + i, count);
  });
  return Sum16(delta);
}

template <typename T>
void AttentionDeltaLoop(const AttentionShape& shape, int64_t rows, const T* out, const T* dout,
                        int64_t begin, int64_t end, float* delta) {
  const int64_t stride = shape.out_stride != 0 ? shape.out_stride : shape.H * shape.D;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t b = row / rows, t = row % rows;
    for (int64_t h = 0; h < shape.H; ++h) {
      const int64_t place = row * stride + h * shape.D;
      delta[(b * shape.H + h) * rows + t] = DeltaOf(shape.D, out + place, dout + place);
    }
  }
}

template <typename T>
void AttentionBackwardLoop(const AttentionShape& shape, const AttentionPart& part,
                           const AttentionDropout& dropout,
                           const AttentionBackwardLoopArrays<T>& arrays, int64_t b, int64_t kv,
                           float* scratch) {
  const Sight sight(shape, part, b);
  const int64_t seen = sight.End(part.queries - 1);
  if (seen <= sight.First(0)) return;
  const HeadLayout layout = LayoutOf(shape, part);
  const int64_t D = shape.D, padded_D = layout.padded_D;
  // Keys [first, seen) are packed.
  const int64_t first_key = sight.FirstPanel(0);
  const int64_t count = seen - first_key;
  const int64_t keys = PaddedKeys(count);
  BackwardScratch m;
  m.first = first_key;
  m.kt = scratch;
  m.vt = m.kt + keys * padded_D;
  m.k = m.vt + keys * padded_D;
  m.dk = m.k + keys * padded_D;
  m.dv = m.dk + keys * padded_D;
  m.q = m.dv + keys * padded_D;
  m.dout = m.q + kQueryTile * padded_D;
  m.dq = m.dout + kQueryTile * padded_D;
  m.p = m.dq + kQueryTile * padded_D;
  m.ds = m.p + kQueryTile * kKeyPanel;
  m.delta = m.ds + kQueryTile * kKeyPanel;
  m.logsumexp = m.delta + kQueryTile;

  const int64_t row0 = b * part.query_rows;
  const int64_t key0 = b * part.key_rows + first_key;
  const T* key_rows = arrays.keys + key0 * layout.key_stride + kv * D;
  // k's place holds the values until they are transposed.
  CopyRows(count, D, key_rows + shape.KV * D, layout.key_stride, 1, padded_D, m.k);
  FillZero((keys - count) * padded_D, m.k + count * padded_D);
  TransposeToPanels(keys, padded_D, m.k, m.vt);
  CopyRows(count, D, key_rows, layout.key_stride, 1, padded_D, m.k);
  TransposeToPanels(keys, padded_D, m.k, m.kt);
  FillZero(2 * keys * padded_D, m.dk);

  const int64_t group = shape.H / shape.KV;
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const PanelDropout drop(shape, part, dropout, b, h);
    for (int64_t q0 = 0; q0 < part.queries; q0 += kQueryTile) {
      const int64_t n = Smaller(kQueryTile, part.queries - q0);
      const int64_t tile_end = sight.End(q0 + n - 1);
      if (tile_end <= sight.First(q0)) continue;
      const int64_t place = (row0 + q0) * layout.qkv_stride + h * D;
      const int64_t out_place = (row0 + q0) * layout.out_stride + h * D;
      CopyRows(n, D, arrays.queries + place, layout.qkv_stride, layout.scale, padded_D, m.q);
      CopyRows(n, D, arrays.dout + out_place, layout.out_stride, 1, padded_D, m.dout);
      FillZero(n * padded_D, m.dq);
      const int64_t row = (b * shape.H + h) * part.query_rows + q0;
      for (int64_t r = 0; r < n; ++r) {
        const int64_t at = out_place + r * layout.out_stride;
        m.delta[r] = arrays.delta != nullptr ? arrays.delta[row + r]
                                             : DeltaOf(D, arrays.out + at, arrays.dout + at);
        m.logsumexp[r] = arrays.logsumexp[row + r];
      }
      const int64_t next = Smaller(kQueryTile, part.queries - q0 - n);
      PrefetchRows<Use::kRead>(next, D, arrays.queries + place + n * layout.qkv_stride,
                               layout.qkv_stride);
      PrefetchRows<Use::kRead>(next, D, arrays.dout + out_place + n * layout.out_stride,
                               layout.out_stride);
      if (arrays.out != nullptr) {
        PrefetchRows<Use::kRead>(next, D, arrays.out + out_place + n * layout.out_stride,
                                 layout.out_stride);
        PrefetchRows<Use::kWrite>(n, D, arrays.dqueries + place, layout.qkv_stride);
      }
      for (int64_t k0 = sight.FirstPanel(q0); k0 < tile_end; k0 += kKeyPanel) {
        // Rows before `first`, and row blocks from `last` on, do not see the panel.
        const int64_t first = Larger(0, k0 - sight.shift - q0) / kBlockRows * kBlockRows;
        int64_t last = first;
        while (last < n && sight.FirstPanel(q0 + last) <= k0) last += kBlockRows;
        last = Smaller(last, n);
        BackwardProbabilities(sight, m, D, padded_D, q0, k0, first, last);
        for (int64_t r = first; r < last; ++r) {
          const int64_t before = Larger(0, sight.First(q0 + r) - k0);
          const int64_t visible = Larger(0, Smaller(kKeyPanel, sight.End(q0 + r) - k0));
          if (drop.mask == nullptr || visible <= before) {
            BackwardSoftmax(m, before, visible, r, nullptr);
            continue;
          }
          float factors[kKeyPanel];
          drop.Factors(q0 + r, k0, factors);
          BackwardSoftmax(m, before, visible, r, factors);
        }
        if (first < last) BackwardProducts(sight, m, padded_D, q0, k0, first, last);
      }
      if (arrays.part_dqueries == nullptr) {
        WriteRows(n, D, m.dq, padded_D, layout.scale, layout.qkv_stride, arrays.dqueries + place);
      } else {
        AddRows(n, D, m.dq, padded_D, layout.scale, shape.H * D,
                arrays.part_dqueries + (row0 + q0) * shape.H * D + h * D);
      }
    }
  }
  if (arrays.part_dkeys == nullptr) {
    T* key_gradients = arrays.dkeys + key0 * layout.key_stride + kv * D;
    WriteRows(count, D, m.dk, padded_D, 1, layout.key_stride, key_gradients);
    WriteRows(count, D, m.dv, padded_D, 1, layout.key_stride, key_gradients + shape.KV * D);
  } else {
    const int64_t stride = 2 * shape.KV * D;
    float* key_gradients = arrays.part_dkeys + key0 * stride + kv * D;
    AddRows(count, D, m.dk, padded_D, 1, stride, key_gradients);
    AddRows(count, D, m.dv, padded_D, 1, stride, key_gradients + shape.KV * D);
  }
}

void CachedAttentionLoop(int64_t D, int64_t length, float scale, const float* query,
                         const float* keys, const float* values, float* scratch, float* out) {
  for (int64_t k = 0; k < length; ++k) {
    Vec16 product = {};
    ForVec16(D, [&](int64_t i, int64_t count) {
      product += LoadUpTo(query + i, count) * LoadUpTo(keys + k * D + i, count);
    });
    scratch[k] = Sum16(product) * scale;
  }
  // Room for the rest of a vector is the caller's.
  SoftmaxRow row = {-__builtin_inff(), 0};
  SoftmaxStep(0, length, RoundUp16(length), scratch, &row);
  ForVec16(D, [&](int64_t i, int64_t count) {
    Vec16 sum = {};
    for (int64_t k = 0; k < length; ++k) sum += scratch[k] * LoadUpTo(values + k * D + i, count);
    StoreUpTo(sum * (1.0f / row.sum), count, out + i);
  });
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_LOOPS_H_
