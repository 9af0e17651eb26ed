#ifndef MUSTER_COMMON_KERNELS_ROW_RUNS_H_
#define MUSTER_COMMON_KERNELS_ROW_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/kernels/elementwise.h"
#include "common/kernels/parallel_for.h"

namespace muster {

// Sums over rows that many threads make together, the same bits on any number of them.
constexpr int64_t kRowRuns = 32;

// Cuts the rows into kRowRuns equal runs (the last ones may be shorter or missing), calls
// add_run(begin, end, partial), with partial [width] zeroed first, for each, on ComputeThreads()
// threads, and adds the partial sums to sums[width] in order of the runs.
inline void AddSumsOfRuns(int64_t rows, int64_t width, float* sums,
                          absl::FunctionRef<void(int64_t, int64_t, float*)> add_run) {
  const int64_t run = (rows + kRowRuns - 1) / kRowRuns;
  const int64_t runs = (rows + run - 1) / run;
  std::vector<float> partial(runs * width);
  ParallelFor(rows, run, [&](int64_t begin, int64_t end) {
    add_run(begin, end, partial.data() + begin / run * width);
  });
  for (int64_t i = 0; i < runs; ++i) AddBias(1, width, partial.data() + i * width, sums);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ROW_RUNS_H_
