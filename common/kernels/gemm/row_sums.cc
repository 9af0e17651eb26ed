#include "common/kernels/gemm/row_sums.h"

#include <algorithm>
#include <atomic>

#include "common/kernels/parallel_for.h"
#include "common/kernels/row_runs.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

template <typename T>
void AddRowSums(int64_t rows, int64_t cols, int64_t stride, const T* x, float* sums) {
  if (rows == 0 || cols == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  AddSumsOfRuns(rows, cols, sums, [&](int64_t begin, int64_t end, float* partial) {
    kernels.row_sums(end - begin, cols, stride, x + begin * stride, partial);
  });
}

void SetToZero(int64_t n, float* x) {
  constexpr int64_t kGrain = 1 << 18;
  ParallelFor(n, kGrain, [x](int64_t begin, int64_t end) { std::fill(x + begin, x + end, 0.0f); });
}

bool Unscale(int64_t n, float factor, float* x) {
  constexpr int64_t kGrain = 1 << 15;
  const VectorKernels& kernels = ActiveVectorKernels();
  std::atomic<bool> finite = true;
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    if (!kernels.unscale(end - begin, factor, x + begin)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

bool AllFinite(int64_t n, const float* x) {
  constexpr int64_t kGrain = 1 << 16;
  const VectorKernels& kernels = ActiveVectorKernels();
  std::atomic<bool> finite = true;
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    if (!kernels.all_finite(end - begin, x + begin)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

template void AddRowSums(int64_t, int64_t, int64_t, const float*, float*);
template void AddRowSums(int64_t, int64_t, int64_t, const BFloat16*, float*);
template void AddRowSums(int64_t, int64_t, int64_t, const Float16*, float*);

}  // namespace muster
