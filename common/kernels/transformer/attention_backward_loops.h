#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_BACKWARD_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_BACKWARD_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/attention_rows.h"
#include "common/kernels/transformer/attention_tiles.h"
#include "common/kernels/transformer/tile_product.h"
#include "common/kernels/transformer/vec16.h"

// Loops of the backward pass, by the panels of attention_loops.h.
//
// For a tile of queries and a panel of keys: p = e^(s - logsumexp); dv += (f p)ᵀ do; ds =
// p · (f do vᵀ - δ) with δ = do · o per row; dq += ds k; dk += dsᵀ q.

namespace muster {
namespace {

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

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_BACKWARD_LOOPS_H_
