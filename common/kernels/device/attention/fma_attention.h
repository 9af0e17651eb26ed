#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_FMA_ATTENTION_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_FMA_ATTENTION_H_

#include <cstdint>

#include "common/kernels/device/attention/attention_dropout.h"
#include "common/kernels/device/attention/resolved_attention_shape.h"
#include "common/kernels/device/attention/tensor_attention_backward.h"
#include "common/kernels/device/fma_tiles.h"

namespace muster {

// Attention in f32 arithmetic, without tensor cores: for f32, for heads that cannot be read by
// 16-byte chunks, and for parts. The method is tensor_attention.h's and
// tensor_attention_backward.h's; tiles are squares.

// As AttentionLoopArrays (vector_kernels.h), except that keys begin with a row's first head.
template <typename T>
struct FmaForwardArrays {
  const T* queries;
  const T* keys;
  T* out;
  float* logsumexp;
  // The result of a part, instead of `out`.
  float* part_out;
  Accumulation accumulation;
};
// dqkv is laid out as queries and keys are; part_dqueries and part_dkeys are dense and added to.
template <typename T>
struct FmaBackwardArrays {
  const T* queries;
  const T* keys;
  const T* dout;
  const float* logsumexp;
  const float* delta;
  T* dqkv;
  float* part_dqueries;
  float* part_dkeys;
};

// Forward: a block owns kSide queries; keys and values pass by in one place.
template <typename T, int kHeadDim, bool kDrops>
struct FmaAttentionKernel {
  static constexpr int kThreads = kFmaThreads;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "attention in f32";
  static constexpr int kD = kHeadDim;
  static constexpr int kSide = 64;
  using Kept = KeptTile<kDrops, kSide, kSide>;
  static constexpr size_t kTilesBytes =
      2 * kFloatTileBytes<kSide, kD> + kFloatTileBytes<kSide, kSide>;
  static constexpr size_t kShared = kTilesBytes + Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  FmaForwardArrays<T> arrays;

  MUSTER_DEVICE void Run() const {
    float* const queries = reinterpret_cast<float*>(SharedMemory());
    float* const passing = queries + kSide * kFloatPitch<kD>;
    float* const probabilities = passing + kSide * kFloatPitch<kD>;
    const Kept kept = Kept::At(SharedMemory() + kTilesBytes);
    const int h = BlockY(), b = BlockZ(), kv = place.KeyHeadOf(h);
    const int64_t q0 = static_cast<int64_t>(GridX() - 1 - BlockX()) * kSide;
    const int64_t end = place.EndOfKeys(Min64(q0 + kSide, place.queries) - 1);
    const bool continues = arrays.accumulation == Accumulation::kAdd;
    if (continues && end <= place.FirstKey(b, q0)) return;
    ReadTile<kSide, kD>(queries, arrays.queries + place.Query(b, h), place.qkv_stride, q0,
                        place.queries, place.D);
    RowSums<kSide, kD> o;
    o.Clear();
    float largest[Square<kSide>::kEach], sum[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      largest[i] = -Infinity();
      sum[i] = 0;
      const int64_t query = q0 + Square<kSide>::Row(i);
      if (continues && query < place.queries) {
        largest[i] = arrays.logsumexp[place.Rows(b, h) + query] / place.scale;
        sum[i] = largest[i] == -Infinity() ? 0.0f : 1.0f;
      }
    }
    if (continues) {
      o.Read(arrays.part_out + place.Out(b, h), place.out_stride, q0, place.queries, place.D);
    }
    for (int64_t k0 = place.FirstKey(b, q0) / kSide * kSide; k0 < end; k0 += kSide) {
      ReadTile<kSide, kD>(passing, arrays.keys + place.Key(b, kv), place.key_stride, k0, place.keys,
                          place.D);
      kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
      SyncBlock();
      Square<kSide> s;
      s.template Product<kD>(queries, passing);
      Softmax(b, q0, k0, kept, s, largest, sum, o);
      s.Write(probabilities);
      SyncBlock();
      ReadTile<kSide, kD>(passing, arrays.keys + place.Value(b, kv), place.key_stride, k0,
                          place.keys, place.D);
      SyncBlock();
      o.AddProduct(probabilities, passing);
      SyncBlock();
    }
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i);
      // 0 where the row has seen no key.
      const bool empty = arrays.part_out != nullptr && sum[i] == 0;
      o.Scale(i, empty ? 0.0f : 1.0f / sum[i]);
      if (arrays.logsumexp != nullptr && SquareX() == 0 && query < place.queries) {
        arrays.logsumexp[place.Rows(b, h) + query] =
            empty ? -Infinity() : largest[i] * place.scale + Log(sum[i]);
      }
    }
    if (arrays.part_out != nullptr) {
      o.Write(arrays.part_out + place.Out(b, h), place.out_stride, q0, place.queries, place.D);
    } else {
      o.Write(arrays.out + place.Out(b, h), place.out_stride, q0, place.queries, place.D);
    }
  }

  MUSTER_DEVICE void Softmax(int b, int64_t q0, int64_t k0, const Kept& kept, Square<kSide>& s,
                             float (&largest)[Square<kSide>::kEach],
                             float (&sum)[Square<kSide>::kEach], RowSums<kSide, kD>& o) const {
    constexpr int kEach = Square<kSide>::kEach;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i), first = place.FirstKey(b, query);
      const int64_t last = Min64(query + place.Shift(), place.keys - 1);
      float row_largest = largest[i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t key = k0 + Square<kSide>::Column(j);
        if (key > last || key < first) s.v[i][j] = -Infinity();
        row_largest = Max(s.v[i][j], row_largest);
      }
      // Over the 16 threads of the row, which are half a warp.
#pragma unroll
      for (int mask = 8; mask > 0; mask /= 2) {
        row_largest = Max(row_largest, ShuffleXor(row_largest, mask));
      }
      const float base = NumberOr0(row_largest);
      float row_sum = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        s.v[i][j] = Exp((s.v[i][j] - base) * place.scale);
        row_sum += s.v[i][j];
        s.v[i][j] *= kept.Factor(dropout, Square<kSide>::Row(i), Square<kSide>::Column(j));
      }
#pragma unroll
      for (int mask = 8; mask > 0; mask /= 2) row_sum += ShuffleXor(row_sum, mask);
      const float correction = Exp((largest[i] - base) * place.scale);
      o.Scale(i, correction);
      sum[i] = sum[i] * correction + row_sum;
      largest[i] = row_largest;
    }
  }
};

template <int kD>
struct FmaBackwardTiles {
  // Four tiles of 64 rows of 256 would not fit.
  static constexpr int kSide = kD <= 128 ? 64 : 32;
  static constexpr size_t kTilesBytes =
      4 * kFloatTileBytes<kSide, kD> + kFloatTileBytes<kSide, kSide> + 2 * kSide * sizeof(float);
};

// dk and dv; rows are keys, columns queries.
template <typename T, int kHeadDim, bool kDrops>
struct FmaKeyGradientKernel {
  static constexpr int kThreads = kFmaThreads;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "attention backward in f32, keys and values";
  static constexpr int kD = kHeadDim;
  static constexpr int kSide = FmaBackwardTiles<kD>::kSide;
  using Kept = KeptTile<kDrops, kSide, kSide>;
  static constexpr size_t kTilesBytes = FmaBackwardTiles<kD>::kTilesBytes;
  static constexpr size_t kShared = kTilesBytes + Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  FmaBackwardArrays<T> arrays;

  MUSTER_DEVICE void Run() const {
    constexpr int kTile = kSide * kFloatPitch<kD>;
    float* const keys = reinterpret_cast<float*>(SharedMemory());
    float* const values = keys + kTile;
    float* const queries = values + kTile;
    float* const dout = queries + kTile;
    float* const square = dout + kTile;
    float* const logsumexp = square + kSide * kFloatPitch<kSide>;
    float* const delta = logsumexp + kSide;
    const Kept kept = Kept::At(SharedMemory() + kTilesBytes);
    const int kv = BlockY(), b = BlockZ();
    const int64_t k0 = static_cast<int64_t>(BlockX()) * kSide;
    const int group = place.H / place.KV;
    ReadTile<kSide, kD>(keys, arrays.keys + place.Key(b, kv), place.key_stride, k0, place.keys,
                        place.D);
    ReadTile<kSide, kD>(values, arrays.keys + place.Value(b, kv), place.key_stride, k0, place.keys,
                        place.D);
    RowSums<kSide, kD> dk, dv;
    dk.Clear();
    dv.Clear();
    int64_t ends[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      ends[i] = place.EndOfQueries(b, Min64(k0 + Square<kSide>::Row(i), place.keys - 1));
    }
    const int64_t end = place.EndOfQueries(b, Min64(k0 + kSide, place.keys) - 1);
    const int64_t begin = place.FirstQuery(k0) / kSide * kSide;
    for (int h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t q0 = begin; q0 < end; q0 += kSide) {
        ReadTile<kSide, kD>(queries, arrays.queries + place.Query(b, h), place.qkv_stride, q0,
                            place.queries, place.D);
        ReadTile<kSide, kD>(dout, arrays.dout + place.Out(b, h), place.out_stride, q0,
                            place.queries, place.D);
        if (ThreadIndex() < kSide) {
          const int64_t query = q0 + ThreadIndex();
          const int64_t at = place.Rows(b, h) + query;
          logsumexp[ThreadIndex()] = query < place.queries ? arrays.logsumexp[at] : 0;
          delta[ThreadIndex()] = query < place.queries ? arrays.delta[at] : 0;
        }
        kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
        SyncBlock();
        Square<kSide> p, ds;
        p.template Product<kD>(keys, queries);
        ds.template Product<kD>(values, dout);
#pragma unroll
        for (int i = 0; i < Square<kSide>::kEach; ++i) {
#pragma unroll
          for (int j = 0; j < Square<kSide>::kEach; ++j) {
            const int column = Square<kSide>::Column(j);
            const int64_t query = q0 + column;
            const bool seen =
                k0 + Square<kSide>::Row(i) <= query + place.Shift() && query < ends[i];
            const float factor = kept.Factor(dropout, column, Square<kSide>::Row(i));
            p.v[i][j] = seen ? Exp(p.v[i][j] * place.scale - logsumexp[column]) : 0.0f;
            ds.v[i][j] = seen ? p.v[i][j] * (factor * ds.v[i][j] - delta[column]) : 0.0f;
            p.v[i][j] *= factor;
          }
        }
        p.Write(square);
        SyncBlock();
        dv.AddProduct(square, dout);
        SyncBlock();
        ds.Write(square);
        SyncBlock();
        dk.AddProduct(square, queries);
        SyncBlock();
      }
    }
#pragma unroll
    for (int i = 0; i < RowSums<kSide, kD>::kEach; ++i) dk.Scale(i, place.scale);
    if (arrays.part_dkeys != nullptr) {
      if (begin >= end) return;
      const int64_t stride = 2 * static_cast<int64_t>(place.KV) * place.D;
      float* const to = arrays.part_dkeys + b * place.key_rows * stride;
      dk.AddTo(to + kv * place.D, stride, k0, place.keys, place.D);
      dv.AddTo(to + (place.KV + kv) * place.D, stride, k0, place.keys, place.D);
    } else {
      dk.Write(arrays.dqkv + place.Key(b, kv), place.key_stride, k0, place.keys, place.D);
      dv.Write(arrays.dqkv + place.Value(b, kv), place.key_stride, k0, place.keys, place.D);
    }
  }
};

// dq; rows are queries, columns keys.
template <typename T, int kHeadDim, bool kDrops>
struct FmaQueryGradientKernel {
  static constexpr int kThreads = kFmaThreads;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "attention backward in f32, queries";
  static constexpr int kD = kHeadDim;
  static constexpr int kSide = FmaBackwardTiles<kD>::kSide;
  using Kept = KeptTile<kDrops, kSide, kSide>;
  static constexpr size_t kTilesBytes = FmaBackwardTiles<kD>::kTilesBytes;
  static constexpr size_t kShared = kTilesBytes + Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  FmaBackwardArrays<T> arrays;

  MUSTER_DEVICE void Run() const {
    constexpr int kTile = kSide * kFloatPitch<kD>;
    float* const queries = reinterpret_cast<float*>(SharedMemory());
    float* const dout = queries + kTile;
    float* const keys = dout + kTile;
    float* const values = keys + kTile;
    float* const square = values + kTile;
    const Kept kept = Kept::At(SharedMemory() + kTilesBytes);
    const int h = BlockY(), b = BlockZ(), kv = place.KeyHeadOf(h);
    const int64_t q0 = static_cast<int64_t>(GridX() - 1 - BlockX()) * kSide;
    const int64_t end = place.EndOfKeys(Min64(q0 + kSide, place.queries) - 1);
    if (end <= place.FirstKey(b, q0)) return;
    ReadTile<kSide, kD>(queries, arrays.queries + place.Query(b, h), place.qkv_stride, q0,
                        place.queries, place.D);
    ReadTile<kSide, kD>(dout, arrays.dout + place.Out(b, h), place.out_stride, q0, place.queries,
                        place.D);
    float logsumexp[Square<kSide>::kEach], delta[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i);
      const int64_t at = place.Rows(b, h) + query;
      logsumexp[i] = query < place.queries ? arrays.logsumexp[at] : 0;
      delta[i] = query < place.queries ? arrays.delta[at] : 0;
    }
    RowSums<kSide, kD> dq;
    dq.Clear();
    for (int64_t k0 = place.FirstKey(b, q0) / kSide * kSide; k0 < end; k0 += kSide) {
      ReadTile<kSide, kD>(keys, arrays.keys + place.Key(b, kv), place.key_stride, k0, place.keys,
                          place.D);
      ReadTile<kSide, kD>(values, arrays.keys + place.Value(b, kv), place.key_stride, k0,
                          place.keys, place.D);
      kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
      SyncBlock();
      Square<kSide> s, ds;
      s.template Product<kD>(queries, keys);
      ds.template Product<kD>(dout, values);
#pragma unroll
      for (int i = 0; i < Square<kSide>::kEach; ++i) {
        const int64_t query = q0 + Square<kSide>::Row(i), first = place.FirstKey(b, query);
        const int64_t last = Min64(query + place.Shift(), place.keys - 1);
#pragma unroll
        for (int j = 0; j < Square<kSide>::kEach; ++j) {
          const int64_t key = k0 + Square<kSide>::Column(j);
          const bool seen = first <= key && key <= last && query < place.queries;
          const float factor =
              kept.Factor(dropout, Square<kSide>::Row(i), Square<kSide>::Column(j));
          const float p = seen ? Exp(s.v[i][j] * place.scale - logsumexp[i]) : 0.0f;
          ds.v[i][j] = seen ? p * (factor * ds.v[i][j] - delta[i]) : 0.0f;
        }
      }
      ds.Write(square);
      SyncBlock();
      dq.AddProduct(square, keys);
      SyncBlock();
    }
#pragma unroll
    for (int i = 0; i < RowSums<kSide, kD>::kEach; ++i) dq.Scale(i, place.scale);
    if (arrays.part_dqueries != nullptr) {
      const int64_t stride = static_cast<int64_t>(place.H) * place.D;
      dq.AddTo(arrays.part_dqueries + b * place.query_rows * stride + h * place.D, stride, q0,
               place.queries, place.D);
    } else {
      dq.Write(arrays.dqkv + place.Query(b, h), place.qkv_stride, q0, place.queries, place.D);
    }
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_FMA_ATTENTION_H_
