#ifndef MUSTER_COMMON_KERNELS_DEVICE_TENSOR_TILES_H_
#define MUSTER_COMMON_KERNELS_DEVICE_TENSOR_TILES_H_

#include <cstdint>

#include "common/kernels/device/simt/simt.h"

namespace muster {

// Tiles of 16-bit numbers in shared memory, and products of them by mma.m16n8k16.
//
// A tile's row is kD elements and 16 bytes more: so rows of a tile begin 4 (or 20) banks apart, and
// the eight rows that an 8 × 8 matrix of ldmatrix is made of lie in all 32 banks, without conflict,
// for every kD here (32, 64, 96, 128, 256).
template <int kD>
constexpr int kPitch = kD + 8;
template <int kRows, int kD>
constexpr size_t kTileBytes = size_t{kRows} * kPitch<kD> * 2;

// Queues the copy of rows [row0, row0 + kRows) of `from`, `stride` apart and D elements long, into
// a tile; what is beyond `rows` or D becomes 0. By all kThreads of a block.
template <int kRows, int kD, int kThreads, typename T>
MUSTER_DEVICE void CopyTile(T* tile, const T* from, int64_t stride, int64_t row0, int64_t rows,
                            int D) {
  constexpr int kChunks = kD / 8;
#pragma unroll
  for (int i = 0; i < kRows * kChunks; i += kThreads) {
    const int chunk = i + ThreadIndex();
    if (kRows * kChunks % kThreads != 0 && chunk >= kRows * kChunks) break;
    const int r = chunk / kChunks, c = chunk % kChunks * 8;
    const bool valid = row0 + r < rows && c < D;
    CopyAsync16(tile + r * kPitch<kD> + c, valid ? from + (row0 + r) * stride + c : from, valid);
  }
}

// Fragment of rows [row, row + 16), columns [k, k + 16) as the left factor.
template <int kD, typename T>
MUSTER_DEVICE void LoadLeft(const T* tile, int row, int k, uint32_t (&a)[4]) {
  const int lane = LaneIndex();
  LoadMatrices(a, tile + (row + lane % 16) * kPitch<kD> + k + lane / 16 * 8);
}

// The same of the tile's columns [row, row + 16) and rows [k, k + 16): of a transposed tile.
template <int kD, typename T>
MUSTER_DEVICE void LoadLeftOfColumns(const T* tile, int row, int k, uint32_t (&a)[4]) {
  const int lane = LaneIndex();
  LoadMatricesTransposed(
      a, tile + (k + lane / 16 * 8 + lane % 8) * kPitch<kD> + row + lane / 8 % 2 * 8);
}

// Two fragments of the right factor whose columns are the tile's rows [n, n + 8) and [n + 8, n +
// 16), and whose rows are the tile's columns [k, k + 16): for products with a transposed tile.
template <int kD, typename T>
MUSTER_DEVICE void LoadRightOfRows(const T* tile, int n, int k, uint32_t (&b)[2][2]) {
  const int lane = LaneIndex();
  uint32_t r[4];
  LoadMatrices(r, tile + (n + lane / 16 * 8 + lane % 8) * kPitch<kD> + k + lane / 8 % 2 * 8);
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

// The same of the tile's rows [k, k + 16) and columns [n, n + 16), not transposed.
template <int kD, typename T>
MUSTER_DEVICE void LoadRight(const T* tile, int k, int n, uint32_t (&b)[2][2]) {
  const int lane = LaneIndex();
  uint32_t r[4];
  LoadMatricesTransposed(r, tile + (k + lane % 16) * kPitch<kD> + n + lane / 16 * 8);
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

// Sums of a warp: 16 rows by 8 · kTiles columns. Lane l has of tile n: rows l / 4 ([0], [1]) and l
// / 4 + 8 ([2], [3]), columns 8n + 2 (l % 4) and the next.
template <int kTiles>
struct Accumulator {
  float v[kTiles][4];

  MUSTER_DEVICE void Clear() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[n][i] = 0;
    }
  }

  // As the left factor of a product over these columns: fragment of columns [16 k, 16 k + 16),
  // rounded.
  template <typename T>
  MUSTER_DEVICE void AsLeft(int k, uint32_t (&a)[4]) const {
    a[0] = PackPair<T>(v[2 * k][0], v[2 * k][1]);
    a[1] = PackPair<T>(v[2 * k][2], v[2 * k][3]);
    a[2] = PackPair<T>(v[2 * k + 1][0], v[2 * k + 1][1]);
    a[3] = PackPair<T>(v[2 * k + 1][2], v[2 * k + 1][3]);
  }
};

// sums += left[row … row + 16, :] · rightᵀ over all kD columns of both; right has 8 · kTiles rows.
template <int kD, int kTiles, typename T>
MUSTER_DEVICE void AddProductOfRows(const T* left, int row, const T* right,
                                    Accumulator<kTiles>& sums) {
  // Not unrolled whole where registers are scarce: the compiler would load too far ahead.
#pragma unroll(kD <= 64 ? 4 : 2)
  for (int k = 0; k < kD; k += 16) {
    uint32_t a[4];
    LoadLeft<kD>(left, row, k, a);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t b[2][2];
      LoadRightOfRows<kD>(right, n * 8, k, b);
      MultiplyAdd<T>(sums.v[n], a, b[0]);
      MultiplyAdd<T>(sums.v[n + 1], a, b[1]);
    }
  }
}

// sums += left · right[:, column … column + 8 · kTiles), left being an accumulator over right's 8 ·
// kLeftTiles rows.
template <int kD, int kLeftTiles, int kTiles, typename T>
MUSTER_DEVICE void AddProduct(const Accumulator<kLeftTiles>& left, const T* right, int column,
                              Accumulator<kTiles>& sums) {
#pragma unroll
  for (int k = 0; k < kLeftTiles / 2; ++k) {
    uint32_t a[4];
    left.template AsLeft<T>(k, a);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t b[2][2];
      LoadRight<kD>(right, k * 16, column + n * 8, b);
      MultiplyAdd<T>(sums.v[n], a, b[0]);
      MultiplyAdd<T>(sums.v[n + 1], a, b[1]);
    }
  }
}

// Writes a warp's sums times the rows' factors (of rows lane / 4 and that + 8) to rows [row0 + row,
// …) of `to`, columns [column, …), `stride` apart, as far as `rows` and D go. By way of rows [row,
// row + 16) of `tile`, which nobody else uses any more, so that lanes write 16 bytes each.
template <int kD, int kTiles, typename T>
MUSTER_DEVICE void WriteRows(const Accumulator<kTiles>& sums, const float (&factor)[2], T* tile,
                             int row, T* to, int64_t stride, int64_t row0, int64_t rows, int column,
                             int D) {
  const int lane = LaneIndex();
  uint32_t* const words = reinterpret_cast<uint32_t*>(tile);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      words[((row + lane / 4 + half * 8) * kPitch<kD> + n * 8 + lane % 4 * 2) / 2] =
          PackPair<T>(sums.v[n][2 * half] * factor[half], sums.v[n][2 * half + 1] * factor[half]);
    }
  }
  SyncWarp();
#pragma unroll
  for (int i = 0; i < 16 * kTiles; i += 32) {
    const int r = (i + lane) / kTiles, c = (i + lane) % kTiles * 8;
    if (row0 + row + r < rows && column + c < D) {
      StorePack<8>(LoadPack<8>(tile + (row + r) * kPitch<kD> + c),
                   to + (row0 + row + r) * stride + column + c);
    }
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_TENSOR_TILES_H_
