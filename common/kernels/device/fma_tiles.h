#ifndef MUSTER_COMMON_KERNELS_DEVICE_FMA_TILES_H_
#define MUSTER_COMMON_KERNELS_DEVICE_FMA_TILES_H_

#include <cstdint>

#include "common/kernels/device/simt/simt.h"

namespace muster {

// Tiles of f32 in shared memory, and products of them in f32, by blocks of 256 threads as a 16 × 16
// square: thread (y, x) makes rows [kSide / 16 · y, …) and every 16th column from x on, or, of a
// product's kD columns, fours of neighbours. Rows are four floats longer than what they hold: so
// the eight threads that read 16 bytes together read different banks.
constexpr int kFmaThreads = 256;
template <int kColumns>
constexpr int kFloatPitch = kColumns + 4;
template <int kRows, int kColumns>
constexpr size_t kFloatTileBytes = size_t{kRows} * kFloatPitch<kColumns> * sizeof(float);

MUSTER_DEVICE int SquareY() { return ThreadIndex() / 16; }
MUSTER_DEVICE int SquareX() { return ThreadIndex() % 16; }

// Rows [row0, row0 + kRows) of `from`, as f32; what is beyond `rows` or D becomes 0.
template <int kRows, int kD, typename T>
MUSTER_DEVICE void ReadTile(float* tile, const T* from, int64_t stride, int64_t row0, int64_t rows,
                            int D) {
  for (int i = ThreadIndex(); i < kRows * kD; i += kFmaThreads) {
    const int r = i / kD, c = i % kD;
    const bool valid = row0 + r < rows && c < D;
    tile[r * kFloatPitch<kD> + c] = valid ? Widen(from[(row0 + r) * stride + c]) : 0.0f;
  }
}

// The same, transposed: element (r, c) of what is read becomes row c, column r of the tile.
template <int kRows, int kD, typename T>
MUSTER_DEVICE void ReadTransposedTile(float* tile, const T* from, int64_t stride, int64_t row0,
                                      int64_t rows, int64_t D) {
  for (int i = ThreadIndex(); i < kRows * kD; i += kFmaThreads) {
    const int r = i / kD, c = i % kD;
    const bool valid = row0 + r < rows && c < D;
    tile[c * kFloatPitch<kRows> + r] = valid ? Widen(from[(row0 + r) * stride + c]) : 0.0f;
  }
}

// A thread's part of a square of kSide rows and columns.
template <int kSide>
struct Square {
  static constexpr int kEach = kSide / 16;
  float v[kEach][kEach];

  MUSTER_DEVICE static int Row(int i) { return SquareY() * kEach + i; }
  MUSTER_DEVICE static int Column(int j) { return SquareX() + 16 * j; }

  // rows of a · rows of b, over kD columns.
  template <int kD>
  MUSTER_DEVICE void Product(const float* a, const float* b) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) v[i][j] = 0;
    }
    for (int d = 0; d < kD; d += 4) {
      Pack<float, 4> left[kEach], right[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        left[i] = LoadPack<4>(a + Row(i) * kFloatPitch<kD> + d);
        right[i] = LoadPack<4>(b + Column(i) * kFloatPitch<kD> + d);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
#pragma unroll
          for (int k = 0; k < 4; ++k) v[i][j] += left[i].v[k] * right[j].v[k];
        }
      }
    }
  }

  MUSTER_DEVICE void Write(float* tile) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) tile[Row(i) * kFloatPitch<kSide> + Column(j)] = v[i][j];
    }
  }
};

// A thread's part of sums of kSide rows by kD columns.
template <int kSide, int kD>
struct RowSums {
  static constexpr int kEach = kSide / 16;
  static constexpr int kFours = kD / 64;
  float v[kEach][kFours][4];

  MUSTER_DEVICE static int Row(int i) { return SquareY() * kEach + i; }
  MUSTER_DEVICE static int Column(int f) { return 64 * f + 4 * SquareX(); }

  MUSTER_DEVICE void Clear() {
#pragma unroll
    for (int i = 0; i < kEach; ++i) Scale(i, 0);
  }
  MUSTER_DEVICE void Scale(int i, float factor) {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[i][f][k] = factor == 0 ? 0 : v[i][f][k] * factor;
    }
  }

  // += square · tile: square [kSide, kSide], tile [kSide, kD].
  MUSTER_DEVICE void AddProduct(const float* square, const float* tile) {
    for (int k = 0; k < kSide; k += 4) {
      Pack<float, 4> left[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        left[i] = LoadPack<4>(square + Row(i) * kFloatPitch<kSide> + k);
      }
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
#pragma unroll
        for (int f = 0; f < kFours; ++f) {
          const Pack<float, 4> right = LoadPack<4>(tile + (k + kk) * kFloatPitch<kD> + Column(f));
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
#pragma unroll
            for (int c = 0; c < 4; ++c) v[i][f][c] += left[i].v[kk] * right.v[c];
          }
        }
      }
    }
  }

  template <typename T>
  MUSTER_DEVICE void Write(T* to, int64_t stride, int64_t row0, int64_t rows, int D) {
    ForEach(stride, row0, rows, D, [&](float& x, int64_t place) { to[place] = Narrow<T>(x); });
  }
  MUSTER_DEVICE void AddTo(float* to, int64_t stride, int64_t row0, int64_t rows, int D) {
    ForEach(stride, row0, rows, D, [&](float& x, int64_t place) { to[place] += x; });
  }
  // Elements beyond `rows` or D stay as they are.
  MUSTER_DEVICE void Read(const float* from, int64_t stride, int64_t row0, int64_t rows, int D) {
    ForEach(stride, row0, rows, D, [&](float& x, int64_t place) { x = from[place]; });
  }

  // Calls f(sum, its place) for the sums that lie in rows [row0, rows) of arrays of D columns.
  template <typename F>
  MUSTER_DEVICE void ForEach(int64_t stride, int64_t row0, int64_t rows, int D, const F& f) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (row0 + Row(i) >= rows) break;
#pragma unroll
      for (int four = 0; four < kFours; ++four) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (Column(four) + k < D) {
            f(v[i][four][k], (row0 + Row(i)) * stride + Column(four) + k);
          }
        }
      }
    }
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_FMA_TILES_H_
