#include "common/kernels/transformer/norm.h"

#include <algorithm>

#include "common/kernels/elementwise.h"
#include "common/kernels/parallel_for.h"
#include "common/kernels/row_runs.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {

template <typename T>
void Norm(const NormShape& shape, const NormInputs<T>& in, const NormOutputs<T>& out) {
  constexpr int64_t kGrain = 1 << 14;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(shape.rows, std::max<int64_t>(1, kGrain / shape.width),
              [&](int64_t begin, int64_t end) { kernels.norm(shape, in, out, begin, end); });
}

template <typename T>
void NormBackward(const NormShape& shape, const NormBackwardInputs<T>& in,
                  const NormGradients<T>& gradients) {
  if (shape.rows == 0) return;
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  // Gain's sums, then bias's.
  const int64_t C = shape.width;
  std::vector<float> sums(2 * C);
  AddSumsOfRuns(shape.rows, 2 * C, sums.data(), [&](int64_t begin, int64_t end, float* partial) {
    kernels.norm_backward(shape, in, gradients, begin, end, partial,
                          gradients.bias != nullptr ? partial + C : nullptr);
  });
  if (gradients.gain != nullptr) AddBias(1, C, sums.data(), gradients.gain);
  if (gradients.bias != nullptr) AddBias(1, C, sums.data() + C, gradients.bias);
}

template void Norm(const NormShape&, const NormInputs<float>&, const NormOutputs<float>&);
template void Norm(const NormShape&, const NormInputs<BFloat16>&, const NormOutputs<BFloat16>&);
template void Norm(const NormShape&, const NormInputs<Float16>&, const NormOutputs<Float16>&);
template void NormBackward(const NormShape&, const NormBackwardInputs<float>&,
                           const NormGradients<float>&);
template void NormBackward(const NormShape&, const NormBackwardInputs<BFloat16>&,
                           const NormGradients<BFloat16>&);
template void NormBackward(const NormShape&, const NormBackwardInputs<Float16>&,
                           const NormGradients<Float16>&);

}  // namespace muster
