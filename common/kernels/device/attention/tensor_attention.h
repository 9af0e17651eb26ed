#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_H_

#include <cstdint>

#include "common/kernels/device/attention/attention_dropout.h"
#include "common/kernels/device/attention/resolved_attention_shape.h"
#include "common/kernels/device/tensor_tiles.h"

namespace muster {

// Forward on tensor cores. A block takes kQueries queries of one head: each of its four warps 16 or
// 32 of them, whose fragments stay in registers where D lets them. Keys and values come by tiles of
// 64 or 32, copied asynchronously: while a tile is multiplied, the next one of the other kind is on
// its way. Of a tile, with q and k unscaled and c = scale · log₂e:
//   s = q kᵀ; m' = max(m, s); p = 2^(c (s - m')); sum, o *= 2^(c (m - m')); o += f p v
// f being dropout's factors, where there are some.
// Only the last tiles of a block meet the diagonal. Blocks with the most tiles start first.
//
// By ptxas of CUDA 13.0, nowhere with spills (D: registers of a thread for sm_80 and sm_90; shared
// KiB of a block; blocks that fit a multiprocessor of sm_90):
//   32: 181, 184; 30; 2    64: 235, 240; 54; 2    96: 200, 206; 65; 2    128: 236, 246; 85; 2
//   256: 253, 251; 99; 2
template <typename T, int kHeadDim, bool kDrops>
struct TensorAttentionKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "attention";

  static constexpr int kD = kHeadDim;
  // Fewer where the registers of an output row leave no room for more.
  static constexpr int kKeys = kD <= 128 ? 64 : 32;
  static constexpr int kKeyTiles = kKeys / 8;
  // Sixteens of queries of a warp: two share each fragment of keys and values.
  static constexpr int kRowTiles = kD <= 64 ? 2 : 1;
  static constexpr int kWarpQueries = 16 * kRowTiles;
  static constexpr int kQueries = 4 * kWarpQueries;
  static constexpr bool kQueriesInRegisters = kD <= 128;
  using Kept = KeptTile<kDrops, kQueries, kKeys>;
  static constexpr size_t kTilesBytes = kTileBytes<kQueries, kD> + 4 * kTileBytes<kKeys, kD>;
  static constexpr size_t kShared = kTilesBytes + 2 * Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  const T* qkv;
  T* out;
  float* logsumexp;

  struct Rows {
    Accumulator<kD / 8> o;
    // Of rows lane / 4 and that + 8; `largest` unscaled.
    float largest[2];
    float sum[2];
  };

  MUSTER_DEVICE void Run() const {
    T* const query_tile = reinterpret_cast<T*>(SharedMemory());
    T* const key_tiles = query_tile + kQueries * kPitch<kD>;
    T* const value_tiles = key_tiles + 2 * kKeys * kPitch<kD>;
    const int h = BlockY(), b = BlockZ();
    const int64_t q0 = static_cast<int64_t>(GridX() - 1 - BlockX()) * kQueries;
    const int64_t stride = place.qkv_stride;
    const T* const keys = qkv + place.Key(b, place.KeyHeadOf(h));
    const T* const values = qkv + place.Value(b, place.KeyHeadOf(h));
    const int64_t end = Min64(q0 + kQueries, place.T);
    // From the tile on that holds the first key of the first query.
    const int64_t begin = place.FirstKey(b, q0) / kKeys * kKeys;
    const int tiles = static_cast<int>((end - begin + kKeys - 1) / kKeys);

    CopyTile<kQueries, kD, kThreads>(query_tile, qkv + place.Query(b, h), stride, q0, place.T,
                                     place.D);
    KeptFor(0).template Draw<kThreads>(dropout, place, b, h, q0, begin);
    CopyTile<kKeys, kD, kThreads>(key_tiles, keys, stride, begin, place.T, place.D);
    CommitCopies();
    CopyTile<kKeys, kD, kThreads>(value_tiles, values, stride, begin, place.T, place.D);
    CommitCopies();

    const int first_row = WarpIndex() * kWarpQueries;
    Rows rows[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      rows[m].o.Clear();
      rows[m].largest[0] = rows[m].largest[1] = -Infinity();
      rows[m].sum[0] = rows[m].sum[1] = 0;
    }
    uint32_t q[kQueriesInRegisters ? kRowTiles : 1][kQueriesInRegisters ? kD / 16 : 1][4];
    for (int tile = 0; tile < tiles; ++tile) {
      const int64_t k0 = begin + static_cast<int64_t>(tile) * kKeys;
      const T* const key_tile = key_tiles + tile % 2 * kKeys * kPitch<kD>;
      const T* const value_tile = value_tiles + tile % 2 * kKeys * kPitch<kD>;
      // All but the values of this tile are there.
      WaitCopies<1>();
      SyncBlock();
      if (tile + 1 < tiles) {
        CopyTile<kKeys, kD, kThreads>(key_tiles + (tile + 1) % 2 * kKeys * kPitch<kD>, keys, stride,
                                      k0 + kKeys, place.T, place.D);
        KeptFor(tile + 1).template Draw<kThreads>(dropout, place, b, h, q0, k0 + kKeys);
      }
      CommitCopies();
      if constexpr (kQueriesInRegisters) {
        if (tile == 0) {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
            for (int k = 0; k < kD / 16; ++k) {
              LoadLeft<kD>(query_tile, first_row + 16 * m, 16 * k, q[m][k]);
            }
          }
        }
      }
      Accumulator<kKeyTiles> s[kRowTiles];
      Scores(query_tile, first_row, key_tile, q, s);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        Softmax(b, q0 + first_row + 16 * m, k0, s[m], rows[m]);
        if constexpr (kDrops) Drop(KeptFor(tile), first_row + 16 * m, s[m]);
      }
      // All but the next keys are there.
      WaitCopies<1>();
      SyncBlock();
      if (tile + 1 < tiles) {
        CopyTile<kKeys, kD, kThreads>(value_tiles + (tile + 1) % 2 * kKeys * kPitch<kD>, values,
                                      stride, k0 + kKeys, place.T, place.D);
      }
      CommitCopies();
      AddValues(value_tile, s, rows);
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      Finish(query_tile, b, h, q0, first_row + 16 * m, rows[m]);
    }
  }

  // In one of two places.
  MUSTER_DEVICE Kept KeptFor(int tile) const {
    return Kept::At(SharedMemory() + kTilesBytes + tile % 2 * Kept::kBytes);
  }

  MUSTER_DEVICE void Drop(const Kept& kept, int row, Accumulator<kKeyTiles>& p) const {
    const int lane = LaneIndex();
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p.v[n][i] *= kept.Factor(dropout, row + lane / 4 + i / 2 * 8, n * 8 + lane % 4 * 2 + i % 2);
      }
    }
  }

  template <typename Q>
  MUSTER_DEVICE void Scores(const T* query_tile, int first_row, const T* key_tile, const Q& q,
                            Accumulator<kKeyTiles> (&s)[kRowTiles]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) s[m].Clear();
#pragma unroll
    for (int k = 0; k < kD / 16; ++k) {
      uint32_t a[4];
      if constexpr (!kQueriesInRegisters) LoadLeft<kD>(query_tile, first_row, 16 * k, a);
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        uint32_t bb[2][2];
        LoadRightOfRows<kD>(key_tile, n * 8, 16 * k, bb);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          if constexpr (kQueriesInRegisters) {
            MultiplyAdd<T>(s[m].v[n], q[m][k], bb[0]);
            MultiplyAdd<T>(s[m].v[n + 1], q[m][k], bb[1]);
          } else {
            MultiplyAdd<T>(s[m].v[n], a, bb[0]);
            MultiplyAdd<T>(s[m].v[n + 1], a, bb[1]);
          }
        }
      }
    }
  }

  // Turns scores of rows from `row0` on and keys from `k0` on into probabilities.
  MUSTER_DEVICE void Softmax(int b, int64_t row0, int64_t k0, Accumulator<kKeyTiles>& s,
                             Rows& rows) const {
    const int lane = LaneIndex();
    // Otherwise all rows see the tile's first key.
    if (place.FirstKey(b, row0 + 15) > k0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = static_cast<int>(place.FirstKey(b, row0 + lane / 4 + half * 8) - k0);
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (n * 8 + lane % 4 * 2 + i < first) s.v[n][2 * half + i] = -Infinity();
          }
        }
      }
    }
    if (k0 + kKeys - 1 > row0) {
      const int seen = static_cast<int>(row0 - k0) + lane / 4;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (n * 8 + lane % 4 * 2 + i % 2 > seen + i / 2 * 8) s.v[n][i] = -Infinity();
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = rows.largest[half];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        largest = Max(Max(s.v[n][2 * half], s.v[n][2 * half + 1]), largest);
      }
      largest = Max(largest, ShuffleXor(largest, 1));
      largest = Max(largest, ShuffleXor(largest, 2));
      const float base = NumberOr0(largest);
      const float correction = Exp2((rows.largest[half] - base) * place.scale_log2);
      const float shift = base * place.scale_log2;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s.v[n][i] = Exp2(s.v[n][i] * place.scale_log2 - shift);
          sum += s.v[n][i];
        }
      }
      rows.largest[half] = largest;
      // This lane's part of the row; the four parts are joined at the end.
      rows.sum[half] = rows.sum[half] * correction + sum;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        rows.o.v[n][2 * half] *= correction;
        rows.o.v[n][2 * half + 1] *= correction;
      }
    }
  }

  MUSTER_DEVICE void AddValues(const T* value_tile, const Accumulator<kKeyTiles> (&p)[kRowTiles],
                               Rows (&rows)[kRowTiles]) const {
#pragma unroll
    for (int k = 0; k < kKeyTiles / 2; ++k) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) p[m].template AsLeft<T>(k, a[m]);
#pragma unroll
      for (int n = 0; n < kD / 8; n += 2) {
        uint32_t bb[2][2];
        LoadRight<kD>(value_tile, 16 * k, n * 8, bb);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          MultiplyAdd<T>(rows[m].o.v[n], a[m], bb[0]);
          MultiplyAdd<T>(rows[m].o.v[n + 1], a[m], bb[1]);
        }
      }
    }
  }

  MUSTER_DEVICE void Finish(T* query_tile, int b, int h, int64_t q0, int row, Rows& rows) const {
    const int lane = LaneIndex();
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows.sum[half];
      sum += ShuffleXor(sum, 1);
      sum += ShuffleXor(sum, 2);
      factor[half] = 1.0f / sum;
      const int64_t query = q0 + row + lane / 4 + half * 8;
      if (logsumexp != nullptr && lane % 4 == 0 && query < place.T) {
        logsumexp[place.Rows(b, h) + query] = rows.largest[half] * place.scale + Log(sum);
      }
    }
    WriteRows<kD>(rows.o, factor, query_tile, row, out + place.Out(b, h), place.out_stride, q0,
                  place.T, 0, place.D);
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_H_
