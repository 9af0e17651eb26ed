#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_SIZES_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_SIZES_H_

#include <cstdint>

namespace muster {

// Elements of the arrays that kernels need beside what they compute: pure arithmetic, for those who
// plan memory and launch nothing. None falls as rows grow, so that the array of the most rows
// serves all.

// Rows that are summed run by run, each run by a block, and then the runs' sums.
struct RowRuns {
  int64_t most = 0;
  int64_t fewest_rows = 0;

  constexpr int64_t RowsOfRun(int64_t rows) const {
    const int64_t run = (rows + most - 1) / most;
    return run < fewest_rows ? fewest_rows : run;
  }
  // At least the runs of any smaller number of rows: these themselves may fall where rows grow.
  constexpr int64_t MostRuns(int64_t rows) const {
    const int64_t runs = (rows + fewest_rows - 1) / fewest_rows;
    return runs < most ? runs : most;
  }
};

// Of DeviceAddRowSums: at most so many blocks share a column.
inline constexpr RowRuns kRowSumsRuns = {.most = 128, .fewest_rows = 64};
// Floats of its scratch.
constexpr int64_t DeviceRowSumsScratch(int64_t rows, int64_t cols) {
  const int64_t runs = kRowSumsRuns.MostRuns(rows);
  return runs > 1 ? runs * cols : 0;
}

// Of DeviceNormBackward: enough blocks for any device, few enough that their sums are small.
inline constexpr RowRuns kNormRuns = {.most = 512, .fewest_rows = 4};
// Floats of its scratch; none is used without gradients of gain and bias.
constexpr int64_t DeviceNormBackwardScratch(int64_t rows, int64_t width) {
  return kNormRuns.MostRuns(rows) * 2 * width;
}

// Floats of the scratch of DeviceHeadNormBackward, whose groups are so wide. Runs are DeviceNorm's.
constexpr int64_t DeviceHeadNormBackwardScratch(int64_t rows, int64_t width) {
  return kNormRuns.MostRuns(rows) * width;
}

// In DeviceRouteBackward a warp of a block takes at least a token.
inline constexpr RowRuns kRouterRuns = {.most = 512, .fewest_rows = 8};
// Floats of its scratch, four doubles a run; none is used without sums.
constexpr int64_t DeviceRouteBackwardScratch(int64_t tokens) {
  return kRouterRuns.MostRuns(tokens) * 8;
}

// Elements of a run of DeviceSumOfSquares.
inline constexpr int64_t kSquaresRun = 65536;
// Doubles of its scratch.
constexpr int64_t DeviceSquaresScratch(int64_t n) { return (n + kSquaresRun - 1) / kSquaresRun; }

// Floats of DeviceAttentionBackward's scratch, of so many tokens of all sequences.
constexpr int64_t DeviceAttentionBackwardScratch(int64_t tokens, int64_t heads) {
  return tokens * heads;
}

// Integers that FillTokenOrder fills.
constexpr int64_t TokenOrderSize(int64_t rows) { return 3 * rows + 2; }

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_SIZES_H_
