#ifndef MUSTER_COMMON_KERNELS_MOE_EXPERT_ACTIVATION_H_
#define MUSTER_COMMON_KERNELS_MOE_EXPERT_ACTIVATION_H_

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

// Weighted activations of experts' rows, with the loops and the errors of transformer/activation.h.
// T is float, BFloat16 or Float16. On ComputeThreads() threads; for one instruction set the same
// bits on any number of them. Thread-safe.

template <typename T>
void ActivateExperts(const ExpertActivation& activation, const ExpertActivationArrays& arrays);
template <typename T>
void ActivateExpertsBackward(const ExpertActivation& activation,
                             const ExpertActivationGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MOE_EXPERT_ACTIVATION_H_
