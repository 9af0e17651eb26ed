#ifndef MUSTER_COMMON_OPTIM_APPLY_H_
#define MUSTER_COMMON_OPTIM_APPLY_H_

#include "common/kernels/simd_clones.h"

namespace muster {

// The gradient that a step uses. Written so that a NaN passes: each comparison with one is false.
// Costs a minimum and a maximum even where the limit is infinite, which the loops' memory traffic
// hides; one loop serves both cases.
MUSTER_ALWAYS_INLINE float UsedGradient(float gradient, float scale, float limit) {
  const float g = gradient * scale;
  const float below = limit < g ? limit : g;
  return -limit > below ? -limit : below;
}

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_APPLY_H_
