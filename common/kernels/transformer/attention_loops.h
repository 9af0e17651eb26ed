#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/attention_rows.h"
#include "common/kernels/transformer/attention_tiles.h"
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
//
// All of it is written for an AttentionPart. Attention of whole sequences is the part whose keys
// are its queries' own tokens. A part's forward goes on from the state {logsumexp, 1, out} that the
// parts before it left.

namespace muster {
namespace {

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
