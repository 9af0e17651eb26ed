#ifndef MUSTER_COMMON_OPTIM_APPLY_H_
#define MUSTER_COMMON_OPTIM_APPLY_H_

#include "common/base/machine/simd_clones.h"

namespace muster {

// Returns the gradient that a step uses: scaled, then limited. A NaN passes, since each comparison
// with it is false. The limit is applied even when it is infinite: memory traffic hides its cost,
// and one loop serves both cases.
MUSTER_ALWAYS_INLINE float UsedGradient(float gradient, float scale, float limit) {
  const float g = gradient * scale;
  const float below = limit < g ? limit : g;
  return -limit > below ? -limit : below;
}

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_APPLY_H_
