#ifndef MUSTER_COMMON_KERNELS_MOE_EXPERT_LINEAR_H_
#define MUSTER_COMMON_KERNELS_MOE_EXPERT_LINEAR_H_

#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

// Linear layers of experts: a product (gemm.h) for each expert that has rows, with that function's
// threads and bits. T is float, BFloat16 or Float16. Thread-safe.

template <typename T>
void ExpertLinearForward(const ExpertLinear& linear, const int32_t* offsets, const T* x,
                         const T* weight, T* y);
// dx [R, in] = dy [R, out] · weight of the row's expert.
template <typename T>
void ExpertLinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets, const T* dy,
                               const T* weight, T* dx);
// weight of each expert = or += dyᵀ · x of its rows.
template <typename T>
void ExpertLinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                 const ExpertLinearGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MOE_EXPERT_LINEAR_H_
