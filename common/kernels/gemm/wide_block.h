#ifndef MUSTER_COMMON_KERNELS_GEMM_WIDE_BLOCK_H_
#define MUSTER_COMMON_KERNELS_GEMM_WIDE_BLOCK_H_

#include <algorithm>
#include <cstdint>

namespace muster {

// Where products of 16-bit numbers are made of f32 ones, blocks of [rows, depth] of the first
// operand and [depth, cols] of the second are f32 at a time.
struct WideBlock {
  static constexpr int64_t kLargestDepth = 4096;

  int64_t depth = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Returns the largest block of a product [m, k] · [k, n]. REQUIRES: k > 0.
constexpr WideBlock WideBlockOf(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kFirst = int64_t{1} << 20, kSecond = int64_t{3} << 20, kLeast = 64;
  const int64_t depth = std::min(k, WideBlock::kLargestDepth);
  return {.depth = depth,
          .rows = std::min(m, std::max(kLeast, kFirst / depth)),
          .cols = std::min(n, std::max(kLeast, kSecond / depth))};
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_GEMM_WIDE_BLOCK_H_
