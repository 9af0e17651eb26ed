#include "common/kernels/moe/expert_linear.h"

#include "common/kernels/gemm/gemm.h"
#include "common/tensor/bfloat16.h"

namespace muster {

template <typename T>
void ExpertLinearForward(const ExpertLinear& linear, const int32_t* offsets, const T* x,
                         const T* weight, T* y) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    const int64_t begin = offsets[e];
    Gemm(offsets[e + 1] - begin, linear.out, linear.in, x + begin * linear.in,
         weight + e * linear.out * linear.in, y + begin * linear.out,
         {.transpose_b = Transpose::kYes});
  }
}

template <typename T>
void ExpertLinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets, const T* dy,
                               const T* weight, T* dx) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    const int64_t begin = offsets[e];
    Gemm(offsets[e + 1] - begin, linear.in, linear.out, dy + begin * linear.out,
         weight + e * linear.out * linear.in, dx + begin * linear.in);
  }
}

template <typename T>
void ExpertLinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                 const ExpertLinearGradientArrays& arrays) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    const int64_t begin = offsets[e];
    // Depth 0 writes zeros, or adds nothing.
    Gemm(linear.out, linear.in, offsets[e + 1] - begin,
         static_cast<const T*>(arrays.dy) + begin * linear.out,
         static_cast<const T*>(arrays.x) + begin * linear.in,
         arrays.weight + e * linear.out * linear.in,
         {.transpose_a = Transpose::kYes, .accumulation = arrays.accumulation});
  }
}

template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const float*, const float*,
                                  float*);
template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const BFloat16*,
                                  const BFloat16*, BFloat16*);
template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const Float16*,
                                  const Float16*, Float16*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const float*,
                                        const float*, float*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const BFloat16*,
                                        const BFloat16*, BFloat16*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const Float16*,
                                        const Float16*, Float16*);
template void ExpertLinearBackwardWeights<float>(const ExpertLinear&, const int32_t*,
                                                 const ExpertLinearGradientArrays&);
template void ExpertLinearBackwardWeights<BFloat16>(const ExpertLinear&, const int32_t*,
                                                    const ExpertLinearGradientArrays&);
template void ExpertLinearBackwardWeights<Float16>(const ExpertLinear&, const int32_t*,
                                                   const ExpertLinearGradientArrays&);

}  // namespace muster
