#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_TILE_PRODUCT_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_TILE_PRODUCT_H_

#include <cstdint>

#include "common/base/machine/simd_clones.h"

// Products of small f32 tiles that lie in the caches: what attention is made of. Included by
// vector_kernels_*.cc alone; see array_loops.h.
//
// A block of rows × vectors of c stays in registers while k goes by; each step takes one row of b
// as vectors and one element of each row of a, broadcast. Because a is only ever read by element,
// its transpose costs nothing.

namespace muster {
namespace {

#if defined(__AVX512F__)
// 24 of 32 registers hold sums, 4 the row of b.
constexpr int64_t kLanes = 16;
constexpr int64_t kBlockRows = 6;
constexpr int64_t kBlockVectors = 4;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
constexpr int64_t kBlockRows = 6;
constexpr int64_t kBlockVectors = 2;
#else
constexpr int64_t kLanes = 4;
constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockVectors = 2;
#endif
using Lanes = float __attribute__((vector_size(kLanes * 4)));

enum class Layout { kRows, kTransposed };

// c[i, j] = or += sum over k of a(i, k) · b[k, j]; a(i, k) is a[i · a_stride + k], or a[k ·
// a_stride + i] when transposed.
struct Tile {
  int64_t depth;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  bool add;
};

template <Layout kA, int kRows, int kVectors>
MUSTER_ALWAYS_INLINE void ProductBlock(const Tile& tile, int64_t column) {
  Lanes sums[kRows][kVectors];
  float* c = tile.c + column;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (tile.add) {
        __builtin_memcpy(&sums[i][v], c + i * tile.c_stride + v * kLanes, sizeof(Lanes));
      } else {
        sums[i][v] = Lanes{};
      }
    }
  }
  const float* b = tile.b + column;
  const float* a = tile.a;
  for (int64_t k = 0; k < tile.depth; ++k) {
    Lanes row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) __builtin_memcpy(&row[v], b + v * kLanes, sizeof(Lanes));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const float element = kA == Layout::kRows ? a[i * tile.a_stride] : a[i];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] += element * row[v];
    }
    b += tile.b_stride;
    a += kA == Layout::kRows ? 1 : tile.a_stride;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      __builtin_memcpy(c + i * tile.c_stride + v * kLanes, &sums[i][v], sizeof(Lanes));
    }
  }
}

template <Layout kA, int kRows>
void ProductRows(const Tile& tile, int64_t columns) {
  int64_t column = 0;
  for (; column + kBlockVectors * kLanes <= columns; column += kBlockVectors * kLanes) {
    ProductBlock<kA, kRows, kBlockVectors>(tile, column);
  }
  switch ((columns - column) / kLanes) {
    case 1:
      return ProductBlock<kA, kRows, 1>(tile, column);
    case 2:
      return ProductBlock<kA, kRows, 2>(tile, column);
    case 3:
      return ProductBlock<kA, kRows, 3>(tile, column);
    default:
      return;
  }
}

// The product of `rows` <= kBlockRows rows and `columns`, a multiple of 16.
template <Layout kA>
void Product(int64_t rows, int64_t columns, const Tile& tile) {
  switch (rows) {
    case 1:
      return ProductRows<kA, 1>(tile, columns);
    case 2:
      return ProductRows<kA, 2>(tile, columns);
    case 3:
      return ProductRows<kA, 3>(tile, columns);
    case 4:
      return ProductRows<kA, 4>(tile, columns);
    case 5:
      return ProductRows<kA, 5>(tile, columns);
    default:
      return ProductRows<kA, 6>(tile, columns);
  }
}

// Interleaves the first, or second, halves of a and b.
template <bool kSecond>
MUSTER_ALWAYS_INLINE Lanes Interleave(Lanes a, Lanes b) {
#if defined(__AVX512F__)
  return kSecond ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                           30, 15, 31)
                 : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                           23);
#elif defined(__AVX2__)
  return kSecond ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                 : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return kSecond ? __builtin_shufflevector(a, b, 2, 6, 3, 7)
                 : __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}

// to[j, i] = from[i, j] for i, j < kLanes: log2(kLanes) perfect shuffles.
MUSTER_ALWAYS_INLINE void TransposeBlock(const float* from, int64_t from_stride, float* to,
                                         int64_t to_stride) {
  Lanes rows[kLanes], shuffled[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    __builtin_memcpy(&rows[i], from + i * from_stride, sizeof(Lanes));
  }
#pragma GCC unroll 4
  for (int64_t step = 1; step < kLanes; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      shuffled[2 * i] = Interleave<false>(rows[i], rows[i + kLanes / 2]);
      shuffled[2 * i + 1] = Interleave<true>(rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = shuffled[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    __builtin_memcpy(to + i * to_stride, &rows[i], sizeof(Lanes));
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_TILE_PRODUCT_H_
