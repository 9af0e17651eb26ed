#ifndef MUSTER_COMMON_KERNELS_DEVICE_RESOLVED_ATTENTION_SHAPE_H_
#define MUSTER_COMMON_KERNELS_DEVICE_RESOLVED_ATTENTION_SHAPE_H_

#include <cmath>
#include <cstdint>

#include "common/kernels/device/simt.h"
#include "common/kernels/transformer/attention.h"

namespace muster {

// Where heads lie: AttentionShape with nothing left to default.
struct ResolvedAttentionShape {
  int64_t T;
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

  MUSTER_DEVICE int KeyHeadOf(int h) const { return h / (H / KV); }
  // Of token 0 of sequence b: its queries of head h, and keys and values of key-value head kv.
  MUSTER_DEVICE int64_t Query(int b, int h) const {
    return b * T * qkv_stride + static_cast<int64_t>(h) * D;
  }
  MUSTER_DEVICE int64_t Key(int b, int kv) const { return Query(b, H + kv); }
  MUSTER_DEVICE int64_t Value(int b, int kv) const { return Query(b, H + KV + kv); }
  // Of the output, and of rows' numbers such as logsumexp.
  MUSTER_DEVICE int64_t Out(int b, int h) const {
    return b * T * out_stride + static_cast<int64_t>(h) * D;
  }
  MUSTER_DEVICE int64_t Rows(int b, int h) const { return (static_cast<int64_t>(b) * H + h) * T; }

  // Returns the first key that query t of sequence b sees; it never falls as t grows. From T on: of
  // the last query.
  MUSTER_DEVICE int64_t FirstKey(int b, int64_t t) const {
    if (token_positions == nullptr) return 0;
    const int64_t query = Min64(t, T - 1);
    return query - token_positions[b * T + query];
  }
  // Returns the query behind the last one that sees the key, which is at most T - 1. Halves what is
  // left of the sequence: first keys never fall.
  MUSTER_DEVICE int64_t EndOfQueries(int b, int64_t key) const {
    if (token_positions == nullptr) return T;
    int64_t seeing = key, end = T;
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

inline ResolvedAttentionShape PlaceOf(const AttentionShape& shape) {
  const float scale =
      shape.scale != 0 ? shape.scale : 1.0f / std::sqrt(static_cast<float>(shape.D));
  return {
      .T = shape.T,
      .H = static_cast<int>(shape.H),
      .KV = static_cast<int>(shape.KV),
      .D = static_cast<int>(shape.D),
      .qkv_stride = shape.qkv_stride != 0 ? shape.qkv_stride : (shape.H + 2 * shape.KV) * shape.D,
      .out_stride = shape.out_stride != 0 ? shape.out_stride : shape.H * shape.D,
      .scale = scale,
      .scale_log2 = scale * kLog2E,
      .token_positions = shape.token_positions};
}

// Whether heads can be read by 16-byte chunks of 16-bit elements, as tensor cores' kernels do.
inline bool InChunks(const ResolvedAttentionShape& place, const void* qkv, const void* out) {
  return place.D % 8 == 0 && place.qkv_stride % 8 == 0 && place.out_stride % 8 == 0 &&
         IsAligned16(qkv) && IsAligned16(out);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_RESOLVED_ATTENTION_SHAPE_H_
