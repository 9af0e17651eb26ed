#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_BACKWARD_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_BACKWARD_H_

#include <cstdint>

#include "common/kernels/device/attention/attention_dropout.h"
#include "common/kernels/device/attention/resolved_attention_shape.h"
#include "common/kernels/device/tensor_tiles.h"

namespace muster {

// Backward on tensor cores in two kernels, each of which owns what it writes: no atomics, so the
// same bits every time; scores are made twice. With p = 2^(c s - lse · log₂e), δ = do · o per row:
//   dv = (f p)ᵀ do;  ds = p · (f do vᵀ - δ);  dq = scale · ds k;  dk = scale · dsᵀ q
// f being dropout's factors.
// Of a row they need `logsumexp` and `delta`, [B, H, T].
//
// By ptxas of CUDA 13.0 without spills (D: registers of a thread for keys and for queries on sm_90;
// shared KiB of a block):
//   32: 170, 160; 31    64: 230, 222; 55    96: 210, 166; 52    128: 245, 178; 69    256: 255, 204;
//   132 (one block of a multiprocessor; two else)
template <typename T>
struct AttentionBackwardArrays {
  const T* qkv;
  const T* dout;
  const float* logsumexp;
  const float* delta;
  T* dqkv;
};

// Sizes of tiles for heads of kD: what of a row's gradients fits into registers decides.
template <int kD>
struct BackwardTiles {
  // Rows that a block of four warps owns.
  static constexpr int kOwned = 64;
  // Rows of the tiles that pass by.
  static constexpr int kPassing = kD <= 64 ? 64 : 32;
  static constexpr int kPassingTiles = kPassing / 8;
  // Columns of gradients that a block makes; of longer heads several blocks take a part each, and
  // each makes all scores.
  static constexpr int kColumns = kD <= 128 ? kD : 128;
  static constexpr int kParts = kD / kColumns;
  // Two tiles owned, and two that pass by, twice each.
  static constexpr size_t kTilesBytes = 2 * kTileBytes<kOwned, kD> + 4 * kTileBytes<kPassing, kD>;
};

// dk and dv. A block owns 64 keys of a key-value head, a warp 16; queries and do of all heads that
// share it pass by, from the diagonal on. Everything is transposed: rows are keys.
template <typename T, int kHeadDim, bool kDrops>
struct TensorKeyGradientKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "attention backward, keys and values";

  static constexpr int kD = kHeadDim;
  using Tiles = BackwardTiles<kD>;
  static constexpr int kKeys = Tiles::kOwned;
  static constexpr int kQueries = Tiles::kPassing;
  static constexpr int kQueryTiles = Tiles::kPassingTiles;
  using Kept = KeptTile<kDrops, kQueries, kKeys>;
  static constexpr size_t kNumbersBytes = 4 * kQueries * sizeof(float);
  static constexpr size_t kShared = Tiles::kTilesBytes + kNumbersBytes + 2 * Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  AttentionBackwardArrays<T> arrays;

  // What passes by, in one of two places.
  struct Passing {
    T* queries;
    T* dout;
    float* logsumexp_log2;
    float* delta;
    Kept kept;
  };

  MUSTER_DEVICE void Run() const {
    T* const key_tile = reinterpret_cast<T*>(SharedMemory());
    T* const value_tile = key_tile + kKeys * kPitch<kD>;
    const int kv = BlockY(), b = BlockZ();
    const int part = BlockX() % Tiles::kParts;
    const int64_t k0 = static_cast<int64_t>(BlockX() / Tiles::kParts) * kKeys;
    const int group = place.H / place.KV;
    // A head's tiles go from the one that holds query k0 to the last query that sees one of these.
    const int first = static_cast<int>(k0 / kQueries);
    const int64_t end = place.EndOfQueries(b, Min64(k0 + kKeys, place.T) - 1);
    const int per_head = static_cast<int>((end + kQueries - 1) / kQueries) - first;
    const int tiles = per_head * group;

    CopyTile<kKeys, kD, kThreads>(key_tile, arrays.qkv + place.Key(b, kv), place.qkv_stride, k0,
                                  place.T, place.D);
    CopyTile<kKeys, kD, kThreads>(value_tile, arrays.qkv + place.Value(b, kv), place.qkv_stride, k0,
                                  place.T, place.D);
    Fetch(PlaceFor(0), b, kv * group, static_cast<int64_t>(first) * kQueries, k0);
    CommitCopies();

    const int row = WarpIndex() * 16;
    // The queries that see this lane's keys end here.
    int ends[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t key = k0 + row + LaneIndex() / 4 + half * 8;
      ends[half] = static_cast<int>(place.EndOfQueries(b, Min64(key, place.T - 1)));
    }
    Accumulator<Tiles::kColumns / 8> dk, dv;
    dk.Clear();
    dv.Clear();
    for (int tile = 0; tile < tiles; ++tile) {
      const Passing now = PlaceFor(tile);
      if (tile + 1 < tiles) {
        Fetch(PlaceFor(tile + 1), b, kv * group + (tile + 1) / per_head,
              static_cast<int64_t>(first + (tile + 1) % per_head) * kQueries, k0);
      }
      CommitCopies();
      WaitCopies<1>();
      SyncBlock();
      const int64_t q0 = static_cast<int64_t>(first + tile % per_head) * kQueries;
      Accumulator<kQueryTiles> p, ds;
      p.Clear();
      ds.Clear();
      AddProductOfRows<kD>(key_tile, row, now.queries, p);
      AddProductOfRows<kD>(value_tile, row, now.dout, ds);
      Probabilities(now, k0, row, q0, ends, p, ds);
      AddProduct<kD>(p, now.dout, part * Tiles::kColumns, dv);
      AddProduct<kD>(ds, now.queries, part * Tiles::kColumns, dk);
      // The next round writes over what passed by before this one.
      SyncBlock();
    }
    const float one[2] = {1, 1}, scale[2] = {place.scale, place.scale};
    WriteRows<kD>(dv, one, value_tile, row, arrays.dqkv + place.Value(b, kv), place.qkv_stride, k0,
                  place.T, part * Tiles::kColumns, place.D);
    WriteRows<kD>(dk, scale, key_tile, row, arrays.dqkv + place.Key(b, kv), place.qkv_stride, k0,
                  place.T, part * Tiles::kColumns, place.D);
  }

  MUSTER_DEVICE Passing PlaceFor(int tile) const {
    T* const tiles = reinterpret_cast<T*>(SharedMemory()) + 2 * kKeys * kPitch<kD> +
                     tile % 2 * 2 * kQueries * kPitch<kD>;
    float* const numbers =
        reinterpret_cast<float*>(SharedMemory() + Tiles::kTilesBytes) + tile % 2 * 2 * kQueries;
    const Kept kept =
        Kept::At(SharedMemory() + Tiles::kTilesBytes + kNumbersBytes + tile % 2 * Kept::kBytes);
    return {tiles, tiles + kQueries * kPitch<kD>, numbers, numbers + kQueries, kept};
  }

  MUSTER_DEVICE void Fetch(const Passing& to, int b, int h, int64_t q0, int64_t k0) const {
    CopyTile<kQueries, kD, kThreads>(to.queries, arrays.qkv + place.Query(b, h), place.qkv_stride,
                                     q0, place.T, place.D);
    CopyTile<kQueries, kD, kThreads>(to.dout, arrays.dout + place.Out(b, h), place.out_stride, q0,
                                     place.T, place.D);
    if (ThreadIndex() < kQueries) {
      const int64_t query = q0 + ThreadIndex();
      const bool valid = query < place.T;
      const int64_t at = place.Rows(b, h) + query;
      to.logsumexp_log2[ThreadIndex()] = valid ? arrays.logsumexp[at] * kLog2E : 0;
      to.delta[ThreadIndex()] = valid ? arrays.delta[at] : 0;
    }
    to.kept.template Draw<kThreads>(dropout, place, b, h, q0, k0);
  }

  // p becomes probabilities as they were multiplied with values, ds, which holds v doᵀ, the scores'
  // gradients; of the block's keys from k0 on the warp's 16 from `row` on.
  MUSTER_DEVICE void Probabilities(const Passing& now, int64_t k0, int row, int64_t q0,
                                   const int (&ends)[2], Accumulator<kQueryTiles>& p,
                                   Accumulator<kQueryTiles>& ds) const {
    const int lane = LaneIndex();
    const int64_t key0 = k0 + row;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i % 2;
        const float factor = now.kept.Factor(dropout, column, row + lane / 4 + i / 2 * 8);
        p.v[n][i] = Exp2(p.v[n][i] * place.scale_log2 - now.logsumexp_log2[column]);
        ds.v[n][i] = p.v[n][i] * (factor * ds.v[n][i] - now.delta[column]);
        p.v[n][i] *= factor;
      }
    }
    // Elsewhere every query sees every key. The warp's first key is that of its first lane.
    if (key0 + 15 <= q0 && q0 + kQueries <= Shuffle(ends[0], 0)) return;
    // Of columns, those of queries that see this lane's keys.
    const int first = static_cast<int>(key0 - q0) + lane / 4;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i % 2;
        if (column < first + i / 2 * 8 || column >= ends[i / 2] - q0) {
          p.v[n][i] = ds.v[n][i] = 0;
        }
      }
    }
  }
};

// dq. A block owns 64 queries of a head, a warp 16; keys and values pass by up to the diagonal.
template <typename T, int kHeadDim, bool kDrops>
struct TensorQueryGradientKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "attention backward, queries";

  static constexpr int kD = kHeadDim;
  using Tiles = BackwardTiles<kD>;
  static constexpr int kQueries = Tiles::kOwned;
  static constexpr int kKeys = Tiles::kPassing;
  static constexpr int kKeyTiles = Tiles::kPassingTiles;
  using Kept = KeptTile<kDrops, kQueries, kKeys>;
  static constexpr size_t kShared = Tiles::kTilesBytes + 2 * Kept::kBytes;

  ResolvedAttentionShape place;
  OpDropout dropout;
  AttentionBackwardArrays<T> arrays;

  MUSTER_DEVICE void Run() const {
    T* const query_tile = reinterpret_cast<T*>(SharedMemory());
    T* const dout_tile = query_tile + kQueries * kPitch<kD>;
    T* const passing = dout_tile + kQueries * kPitch<kD>;
    const int h = BlockY(), b = BlockZ();
    const int part = BlockX() % Tiles::kParts;
    // The blocks with the most keys first.
    const int64_t q0 = static_cast<int64_t>((GridX() - 1 - BlockX()) / Tiles::kParts) * kQueries;
    const T* const keys = arrays.qkv + place.Key(b, place.KeyHeadOf(h));
    const T* const values = arrays.qkv + place.Value(b, place.KeyHeadOf(h));
    // From the tile on that holds the first key of the first query.
    const int64_t begin = place.FirstKey(b, q0) / kKeys * kKeys;
    const int tiles = static_cast<int>((Min64(q0 + kQueries, place.T) - begin + kKeys - 1) / kKeys);

    CopyTile<kQueries, kD, kThreads>(query_tile, arrays.qkv + place.Query(b, h), place.qkv_stride,
                                     q0, place.T, place.D);
    CopyTile<kQueries, kD, kThreads>(dout_tile, arrays.dout + place.Out(b, h), place.out_stride, q0,
                                     place.T, place.D);
    Fetch(passing, keys, values, begin);
    KeptFor(0).template Draw<kThreads>(dropout, place, b, h, q0, begin);
    CommitCopies();

    const int row = WarpIndex() * 16;
    float shift[2], delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t query = q0 + row + LaneIndex() / 4 + half * 8;
      const bool valid = query < place.T;
      const int64_t at = place.Rows(b, h) + query;
      shift[half] = valid ? arrays.logsumexp[at] * kLog2E : 0;
      delta[half] = valid ? arrays.delta[at] : 0;
    }
    Accumulator<Tiles::kColumns / 8> dq;
    dq.Clear();
    for (int tile = 0; tile < tiles; ++tile) {
      const int64_t k0 = begin + static_cast<int64_t>(tile) * kKeys;
      const T* const key_tile = passing + tile % 2 * 2 * kKeys * kPitch<kD>;
      const T* const value_tile = key_tile + kKeys * kPitch<kD>;
      if (tile + 1 < tiles) {
        Fetch(passing + (tile + 1) % 2 * 2 * kKeys * kPitch<kD>, keys, values, k0 + kKeys);
        KeptFor(tile + 1).template Draw<kThreads>(dropout, place, b, h, q0, k0 + kKeys);
      }
      CommitCopies();
      WaitCopies<1>();
      SyncBlock();
      Accumulator<kKeyTiles> s, ds;
      s.Clear();
      ds.Clear();
      AddProductOfRows<kD>(query_tile, row, key_tile, s);
      AddProductOfRows<kD>(dout_tile, row, value_tile, ds);
      ScoreGradients(KeptFor(tile), b, q0, row, k0, shift, delta, s, ds);
      AddProduct<kD>(ds, key_tile, part * Tiles::kColumns, dq);
      SyncBlock();
    }
    const float scale[2] = {place.scale, place.scale};
    WriteRows<kD>(dq, scale, query_tile, row, arrays.dqkv + place.Query(b, h), place.qkv_stride, q0,
                  place.T, part * Tiles::kColumns, place.D);
  }

  // In one of two places.
  MUSTER_DEVICE Kept KeptFor(int tile) const {
    return Kept::At(SharedMemory() + Tiles::kTilesBytes + tile % 2 * Kept::kBytes);
  }

  MUSTER_DEVICE void Fetch(T* to, const T* keys, const T* values, int64_t k0) const {
    CopyTile<kKeys, kD, kThreads>(to, keys, place.qkv_stride, k0, place.T, place.D);
    CopyTile<kKeys, kD, kThreads>(to + kKeys * kPitch<kD>, values, place.qkv_stride, k0, place.T,
                                  place.D);
  }

  MUSTER_DEVICE void ScoreGradients(const Kept& kept, int b, int64_t q0, int row, int64_t k0,
                                    const float (&shift)[2], const float (&delta)[2],
                                    const Accumulator<kKeyTiles>& s,
                                    Accumulator<kKeyTiles>& ds) const {
    const int lane = LaneIndex();
    const int64_t query0 = q0 + row;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor =
            kept.Factor(dropout, row + lane / 4 + i / 2 * 8, n * 8 + lane % 4 * 2 + i % 2);
        ds.v[n][i] = Exp2(s.v[n][i] * place.scale_log2 - shift[i / 2]) *
                     (factor * ds.v[n][i] - delta[i / 2]);
      }
    }
    // Otherwise all queries see the tile's first key.
    if (place.FirstKey(b, query0 + 15) > k0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = static_cast<int>(place.FirstKey(b, query0 + lane / 4 + half * 8) - k0);
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (n * 8 + lane % 4 * 2 + i < first) ds.v[n][2 * half + i] = 0;
          }
        }
      }
    }
    // Elsewhere every query sees every key before it. What is behind the last query is not written.
    if (k0 + kKeys - 1 <= query0) return;
    const int seen = static_cast<int>(query0 - k0) + lane / 4;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (n * 8 + lane % 4 * 2 + i % 2 > seen + i / 2 * 8) ds.v[n][i] = 0;
      }
    }
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_TENSOR_ATTENTION_BACKWARD_H_
