#include "common/kernels/transformer/head_norm.h"

#include <algorithm>
#include <vector>

#include "common/kernels/elementwise.h"
#include "common/kernels/parallel_for.h"
#include "common/kernels/row_runs.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

template <typename T>
void HeadNorm(const HeadNormShape& shape, const float* gain, T* x, T* kept) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t row = std::max<int64_t>(1, shape.groups * shape.width);
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(shape.rows, std::max<int64_t>(1, kGrain / row), [&](int64_t begin, int64_t end) {
    kernels.head_norm(shape, gain, begin, end, x, kept);
  });
}

template <typename T>
void HeadNormBackward(const HeadNormShape& shape, const T* kept, const float* gain, T* dx,
                      float* gain_gradient) {
  if (shape.rows == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  std::vector<float> sums(shape.width);
  AddSumsOfRuns(shape.rows, shape.width, sums.data(),
                [&](int64_t begin, int64_t end, float* partial) {
                  kernels.head_norm_backward(shape, kept, gain, begin, end, dx, partial);
                });
  if (gain_gradient != nullptr) AddBias(1, shape.width, sums.data(), gain_gradient);
}

template void HeadNorm(const HeadNormShape&, const float*, float*, float*);
template void HeadNorm(const HeadNormShape&, const float*, BFloat16*, BFloat16*);
template void HeadNorm(const HeadNormShape&, const float*, Float16*, Float16*);
template void HeadNormBackward(const HeadNormShape&, const float*, const float*, float*, float*);
template void HeadNormBackward(const HeadNormShape&, const BFloat16*, const float*, BFloat16*,
                               float*);
template void HeadNormBackward(const HeadNormShape&, const Float16*, const float*, Float16*,
                               float*);

}  // namespace muster
