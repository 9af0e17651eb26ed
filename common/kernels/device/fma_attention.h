#ifndef MUSTER_COMMON_KERNELS_DEVICE_FMA_ATTENTION_H_
#define MUSTER_COMMON_KERNELS_DEVICE_FMA_ATTENTION_H_

#include <cstdint>

#include "common/kernels/device/attention_dropout.h"
#include "common/kernels/device/fma_tiles.h"
#include "common/kernels/device/resolved_attention_shape.h"
#include "common/kernels/device/tensor_attention_backward.h"

namespace muster {

// Attention in f32 arithmetic, without tensor cores: for f32, and for heads that cannot be read by
// 16-byte chunks. The method is tensor_attention.h's and tensor_attention_backward.h's; tiles are
// squares.

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
  const T* qkv;
  T* out;
  float* logsumexp;

  MUSTER_DEVICE void Run() const {
    float* const queries = reinterpret_cast<float*>(SharedMemory());
    float* const passing = queries + kSide * kFloatPitch<kD>;
    float* const probabilities = passing + kSide * kFloatPitch<kD>;
    const Kept kept = Kept::At(SharedMemory() + kTilesBytes);
    const int h = BlockY(), b = BlockZ(), kv = place.KeyHeadOf(h);
    const int64_t q0 = static_cast<int64_t>(GridX() - 1 - BlockX()) * kSide;
    const int64_t end = Min64(q0 + kSide, place.T);
    ReadTile<kSide, kD>(queries, qkv + place.Query(b, h), place.qkv_stride, q0, place.T, place.D);
    RowSums<kSide, kD> o;
    o.Clear();
    float largest[Square<kSide>::kEach], sum[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      largest[i] = -Infinity();
      sum[i] = 0;
    }
    for (int64_t k0 = place.FirstKey(b, q0) / kSide * kSide; k0 < end; k0 += kSide) {
      ReadTile<kSide, kD>(passing, qkv + place.Key(b, kv), place.qkv_stride, k0, place.T, place.D);
      kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
      SyncBlock();
      Square<kSide> s;
      s.template Product<kD>(queries, passing);
      Softmax(b, q0, k0, kept, s, largest, sum, o);
      s.Write(probabilities);
      SyncBlock();
      ReadTile<kSide, kD>(passing, qkv + place.Value(b, kv), place.qkv_stride, k0, place.T,
                          place.D);
      SyncBlock();
      o.AddProduct(probabilities, passing);
      SyncBlock();
    }
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i);
      o.Scale(i, 1.0f / sum[i]);
      if (logsumexp != nullptr && SquareX() == 0 && query < place.T) {
        logsumexp[place.Rows(b, h) + query] = largest[i] * place.scale + Log(sum[i]);
      }
    }
    o.Write(out + place.Out(b, h), place.out_stride, q0, place.T, place.D);
  }

  MUSTER_DEVICE void Softmax(int b, int64_t q0, int64_t k0, const Kept& kept, Square<kSide>& s,
                             float (&largest)[Square<kSide>::kEach],
                             float (&sum)[Square<kSide>::kEach], RowSums<kSide, kD>& o) const {
    constexpr int kEach = Square<kSide>::kEach;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i), first = place.FirstKey(b, query);
      float row_largest = largest[i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t key = k0 + Square<kSide>::Column(j);
        if (key > query || key < first) s.v[i][j] = -Infinity();
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
  AttentionBackwardArrays<T> arrays;

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
    ReadTile<kSide, kD>(keys, arrays.qkv + place.Key(b, kv), place.qkv_stride, k0, place.T,
                        place.D);
    ReadTile<kSide, kD>(values, arrays.qkv + place.Value(b, kv), place.qkv_stride, k0, place.T,
                        place.D);
    RowSums<kSide, kD> dk, dv;
    dk.Clear();
    dv.Clear();
    int64_t ends[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      ends[i] = place.EndOfQueries(b, Min64(k0 + Square<kSide>::Row(i), place.T - 1));
    }
    const int64_t end = place.EndOfQueries(b, Min64(k0 + kSide, place.T) - 1);
    for (int h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t q0 = k0; q0 < end; q0 += kSide) {
        ReadTile<kSide, kD>(queries, arrays.qkv + place.Query(b, h), place.qkv_stride, q0, place.T,
                            place.D);
        ReadTile<kSide, kD>(dout, arrays.dout + place.Out(b, h), place.out_stride, q0, place.T,
                            place.D);
        if (ThreadIndex() < kSide) {
          const int64_t query = q0 + ThreadIndex();
          const int64_t at = place.Rows(b, h) + query;
          logsumexp[ThreadIndex()] = query < place.T ? arrays.logsumexp[at] : 0;
          delta[ThreadIndex()] = query < place.T ? arrays.delta[at] : 0;
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
            const bool seen = k0 + Square<kSide>::Row(i) <= query && query < ends[i];
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
    dk.Write(arrays.dqkv + place.Key(b, kv), place.qkv_stride, k0, place.T, place.D);
    dv.Write(arrays.dqkv + place.Value(b, kv), place.qkv_stride, k0, place.T, place.D);
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
  AttentionBackwardArrays<T> arrays;

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
    const int64_t end = Min64(q0 + kSide, place.T);
    ReadTile<kSide, kD>(queries, arrays.qkv + place.Query(b, h), place.qkv_stride, q0, place.T,
                        place.D);
    ReadTile<kSide, kD>(dout, arrays.dout + place.Out(b, h), place.out_stride, q0, place.T,
                        place.D);
    float logsumexp[Square<kSide>::kEach], delta[Square<kSide>::kEach];
#pragma unroll
    for (int i = 0; i < Square<kSide>::kEach; ++i) {
      const int64_t query = q0 + Square<kSide>::Row(i);
      const int64_t at = place.Rows(b, h) + query;
      logsumexp[i] = query < place.T ? arrays.logsumexp[at] : 0;
      delta[i] = query < place.T ? arrays.delta[at] : 0;
    }
    RowSums<kSide, kD> dq;
    dq.Clear();
    for (int64_t k0 = place.FirstKey(b, q0) / kSide * kSide; k0 < end; k0 += kSide) {
      ReadTile<kSide, kD>(keys, arrays.qkv + place.Key(b, kv), place.qkv_stride, k0, place.T,
                          place.D);
      ReadTile<kSide, kD>(values, arrays.qkv + place.Value(b, kv), place.qkv_stride, k0, place.T,
                          place.D);
      kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
      SyncBlock();
      Square<kSide> s, ds;
      s.template Product<kD>(queries, keys);
      ds.template Product<kD>(dout, values);
#pragma unroll
      for (int i = 0; i < Square<kSide>::kEach; ++i) {
        const int64_t query = q0 + Square<kSide>::Row(i), first = place.FirstKey(b, query);
#pragma unroll
        for (int j = 0; j < Square<kSide>::kEach; ++j) {
          const int64_t key = k0 + Square<kSide>::Column(j);
          const bool seen = first <= key && key <= query && query < place.T;
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
    dq.Write(arrays.dqkv + place.Query(b, h), place.qkv_stride, q0, place.T, place.D);
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_FMA_ATTENTION_H_
