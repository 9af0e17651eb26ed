#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_RESOLVED_ATTENTION_SHAPE_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_RESOLVED_ATTENTION_SHAPE_H_

#include <cmath>
#include <cstdint>

#include "common/kernels/device/simt/simt.h"
#include "common/kernels/transformer/attention.h"

namespace muster {

// Where heads lie: AttentionShape and AttentionPart with nothing left to default. Attention of
// whole sequences is the part of all queries and keys, whose keys are heads of the queries' own
// rows.
struct ResolvedAttentionShape {
  // Tokens of a whole sequence.
  int64_t T;
  // AttentionPart's.
  int64_t queries;
  int64_t keys;
  int64_t first_query;
  int64_t first_key;
  int64_t query_rows;
  int64_t key_rows;
  int64_t key_stride;
  // Heads of a row of keys that lie before the first key head.
  int heads_before_keys;
  int H;
  int KV;
  int D;
  int64_t qkv_stride;
  int64_t out_stride;
  // Of products of queries and keys, natural and for powers of two.
  float scale;
  float scale_log2;
  // AttentionShape's.
  const int32_t* token_positions;
  int64_t window;

  MUSTER_DEVICE int KeyHeadOf(int h) const { return h / (H / KV); }
  // Of token 0 of sequence b: its queries of head h, and keys and values of key-value head kv.
  MUSTER_DEVICE int64_t Query(int b, int h) const {
    return b * query_rows * qkv_stride + static_cast<int64_t>(h) * D;
  }
  MUSTER_DEVICE int64_t Key(int b, int kv) const {
    return b * key_rows * key_stride + static_cast<int64_t>(heads_before_keys + kv) * D;
  }
  MUSTER_DEVICE int64_t Value(int b, int kv) const { return Key(b, KV + kv); }
  // Of the output, and of rows' numbers such as logsumexp.
  MUSTER_DEVICE int64_t Out(int b, int h) const {
    return b * query_rows * out_stride + static_cast<int64_t>(h) * D;
  }
  MUSTER_DEVICE int64_t Rows(int b, int h) const {
    return (static_cast<int64_t>(b) * H + h) * query_rows;
  }

  // Query t's own token is key t + Shift().
  MUSTER_DEVICE int64_t Shift() const { return first_query - first_key; }
  MUSTER_DEVICE bool SeesAllBefore() const { return token_positions == nullptr && window == 0; }
  // Returns the first key that query t of sequence b sees; it never falls as t grows. Behind the
  // last query: of the last one.
  MUSTER_DEVICE int64_t FirstKey(int b, int64_t t) const {
    if (SeesAllBefore()) return 0;
    const int64_t query = Min64(t, queries - 1);
    const int64_t own = Shift() + query;
    const int64_t first =
        token_positions == nullptr ? 0 : Max64(0, own - token_positions[b * query_rows + query]);
    return window == 0 ? first : Max64(first, own - window + 1);
  }
  // Returns the key behind the last one that query t sees.
  MUSTER_DEVICE int64_t EndOfKeys(int64_t t) const {
    return Max64(0, Min64(keys, Shift() + t + 1));
  }
  // Returns the first query that is not before the key.
  MUSTER_DEVICE int64_t FirstQuery(int64_t key) const { return Max64(0, key - Shift()); }
  // Returns the query behind the last one that sees the key, which is less than `keys`; where none
  // does, FirstQuery or less. Halves what is left of the sequence: first keys never fall.
  MUSTER_DEVICE int64_t EndOfQueries(int b, int64_t key) const {
    if (SeesAllBefore()) return queries;
    int64_t seeing = FirstQuery(key), end = queries;
    if (seeing >= end || FirstKey(b, seeing) > key) return Min64(seeing, end);
    while (end - seeing > 1) {
      const int64_t middle = seeing + (end - seeing) / 2;
      if (FirstKey(b, middle) <= key) {
        seeing = middle;
      } else {
        end = middle;
      }
    }
    return end;
  }
};

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

inline ResolvedAttentionShape PlaceOf(const AttentionShape& shape, const AttentionPart& part) {
  const float scale =
      shape.scale != 0 ? shape.scale : 1.0f / std::sqrt(static_cast<float>(shape.D));
  return {
      .T = shape.T,
      .queries = part.queries,
      .keys = part.keys,
      .first_query = part.first_query,
      .first_key = part.first_key,
      .query_rows = part.query_rows,
      .key_rows = part.key_rows,
      .key_stride = part.key_stride != 0 ? part.key_stride : 2 * shape.KV * shape.D,
      .heads_before_keys = 0,
      .H = static_cast<int>(shape.H),
      .KV = static_cast<int>(shape.KV),
      .D = static_cast<int>(shape.D),
      .qkv_stride = shape.qkv_stride != 0 ? shape.qkv_stride : (shape.H + 2 * shape.KV) * shape.D,
      .out_stride = shape.out_stride != 0 ? shape.out_stride : shape.H * shape.D,
      .scale = scale,
      .scale_log2 = scale * kLog2E,
      .token_positions = shape.token_positions,
      .window = shape.window};
}

inline ResolvedAttentionShape PlaceOf(const AttentionShape& shape) {
  ResolvedAttentionShape place = PlaceOf(
      shape, {.queries = shape.T, .keys = shape.T, .query_rows = shape.T, .key_rows = shape.T});
  place.key_stride = place.qkv_stride;
  place.heads_before_keys = place.H;
  return place;
}

// Whether heads can be read by 16-byte chunks of 16-bit elements, as tensor cores' kernels do.
inline bool InChunks(const ResolvedAttentionShape& place, const void* qkv, const void* out) {
  return place.D % 8 == 0 && place.qkv_stride % 8 == 0 && place.out_stride % 8 == 0 &&
         IsAligned16(qkv) && IsAligned16(out);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_RESOLVED_ATTENTION_SHAPE_H_
