#include "common/kernels/moe/expert_activation.h"

#include <algorithm>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

// Rows that are worth a thread's while.
int64_t RowsOfRange(const ExpertActivation& activation) {
  constexpr int64_t kElements = 1 << 14;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, activation.F));
}

}  // namespace

template <typename T>
void ActivateExperts(const ExpertActivation& activation, const ExpertActivationArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  const auto loop = activation.gated ? kernels.weighted_swiglu : kernels.weighted_gelu;
  const int64_t F = activation.F, columns = activation.gated ? 2 * F : F;
  ParallelFor(activation.rows, RowsOfRange(activation), [&](int64_t begin, int64_t end) {
    loop(end - begin, F, arrays.assignments + begin, arrays.weights,
         static_cast<const T*>(arrays.x) + begin * columns, static_cast<T*>(arrays.y) + begin * F);
  });
}

template <typename T>
void ActivateExpertsBackward(const ExpertActivation& activation,
                             const ExpertActivationGradientArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  const auto loop =
      activation.gated ? kernels.weighted_swiglu_backward : kernels.weighted_gelu_backward;
  const int64_t F = activation.F, columns = activation.gated ? 2 * F : F;
  ParallelFor(activation.rows, RowsOfRange(activation), [&](int64_t begin, int64_t end) {
    loop(end - begin, F, arrays.assignments + begin, arrays.weights,
         static_cast<const T*>(arrays.x) + begin * columns,
         static_cast<const T*>(arrays.dy) + begin * F, static_cast<T*>(arrays.dx) + begin * columns,
         arrays.dweights);
  });
}

template void ActivateExperts<float>(const ExpertActivation&, const ExpertActivationArrays&);
template void ActivateExperts<BFloat16>(const ExpertActivation&, const ExpertActivationArrays&);
template void ActivateExperts<Float16>(const ExpertActivation&, const ExpertActivationArrays&);
template void ActivateExpertsBackward<float>(const ExpertActivation&,
                                             const ExpertActivationGradientArrays&);
template void ActivateExpertsBackward<BFloat16>(const ExpertActivation&,
                                                const ExpertActivationGradientArrays&);
template void ActivateExpertsBackward<Float16>(const ExpertActivation&,
                                               const ExpertActivationGradientArrays&);

}  // namespace muster
