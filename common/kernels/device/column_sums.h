#ifndef MUSTER_COMMON_KERNELS_DEVICE_COLUMN_SUMS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_COLUMN_SUMS_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/device/simt/simt.h"

namespace muster {

// Sums over rows, deterministic: a block takes 32 · N columns and a run of rows, of which each of
// its eight warps adds every eighth; the warps' sums are added in order. With kAdd the sums
// are added to `sums`; else they are row BlockY() of it, [runs, cols], for a second pass.
template <typename T, int N>
struct ColumnSumsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "column sums";
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kColumns = 32 * N;
  static constexpr size_t kShared = kThreads * N * sizeof(float);

  int64_t rows;
  int64_t cols;
  int64_t stride;
  int64_t run;
  Accumulation accumulation;
  const T* x;
  float* sums;

  MUSTER_DEVICE void Run() const {
    float* const shared = reinterpret_cast<float*>(SharedMemory());
    const int64_t c = static_cast<int64_t>(BlockX()) * kColumns + LaneIndex() * N;
    const int64_t first = BlockY() * run;
    const int64_t end = Min64(first + run, rows);
    float sum[N] = {};
    if (c < cols) {
#pragma unroll 4
      for (int64_t r = first + WarpIndex(); r < end; r += kWarps) {
        float row[N];
        LoadFloats<N>(x + r * stride + c, row);
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += row[j];
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) shared[(WarpIndex() * N + j) * 32 + LaneIndex()] = sum[j];
    SyncBlock();
    for (int i = ThreadIndex(); i < kColumns; i += kThreads) {
      const int64_t column = static_cast<int64_t>(BlockX()) * kColumns + i;
      if (column >= cols) break;
      float total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += shared[(w * N + i % N) * 32 + i / N];
      if (accumulation == Accumulation::kAdd) {
        sums[column] += total;
      } else {
        sums[BlockY() * cols + column] = total;
      }
    }
  }
};

// Sums of runs of rows, to [ceil(rows / run), cols] or, in one run, added to [cols].
template <typename T>
void LaunchColumnSums(DeviceStream& stream, int64_t rows, int64_t cols, int64_t stride, int64_t run,
                      Accumulation accumulation, const T* x, float* sums) {
  const int runs = static_cast<int>(CeilDiv(rows, run));
  if (rows == 0) return;
  if (cols % 8 == 0 && stride % 8 == 0 && IsAligned16(x)) {
    using Kernel = ColumnSumsKernel<T, 8>;
    Launch(stream, {.x = CeilDiv(cols, Kernel::kColumns), .y = runs}, Kernel::kShared,
           Kernel{rows, cols, stride, run, accumulation, x, sums});
  } else {
    using Kernel = ColumnSumsKernel<T, 1>;
    Launch(stream, {.x = CeilDiv(cols, Kernel::kColumns), .y = runs}, Kernel::kShared,
           Kernel{rows, cols, stride, run, accumulation, x, sums});
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_COLUMN_SUMS_H_
