#ifndef MUSTER_COMMON_KERNELS_MOE_ROUTER_H_
#define MUSTER_COMMON_KERNELS_MOE_ROUTER_H_

#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

// Routers of layers made of experts, as expert_arrays.h defines them; all arithmetic is f32. On
// ComputeThreads() threads; for one instruction set the same bits on any number of them.
// Thread-safe.

// Chooses each token's experts and their weights.
void Route(const RouterShape& shape, const RouteArrays& arrays);

// counts [runs, E] = how often each expert is chosen by counted tokens of the run.
void CountChosen(const RouterShape& shape, const int32_t* chosen, const CountedTokens& counted,
                 float* counts);

// placed [N, k] of the limit's tokens = chosen, or E where the expert has as many as it takes.
void LimitChosen(const RouterShape& shape, const int32_t* chosen, const ChoiceLimit& limit,
                 int32_t* placed);

// direction = or += E · (the expert's choices - the mean of all experts'), in one rounding.
void LoadDirection(int64_t experts, const LoadDirectionArrays& arrays);

// dlogits = the gradient of the weights, and of both losses of counted tokens; sums += these
// losses. T is float, BFloat16 or Float16.
template <typename T>
void RouteBackward(const RouterShape& shape, const RouteBackwardArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MOE_ROUTER_H_
