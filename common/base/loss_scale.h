#ifndef MUSTER_COMMON_BASE_LOSS_SCALE_H_
#define MUSTER_COMMON_BASE_LOSS_SCALE_H_

#include <cstdint>

namespace muster {

// The search for a loss scale in a job that computes in f16. The slots share one under BSP, and
// each has its own otherwise. Cuts hold it for every slot, and tasks that continue from a
// checkpoint read it.
struct LossScale {
  // A power of two.
  float scale = 0;
  // Number of steps since the scale changed.
  uint32_t steps = 0;

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

struct SlotLossScale {
  uint32_t slot = 0;
  LossScale value;

  friend bool operator==(const SlotLossScale&, const SlotLossScale&) = default;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_LOSS_SCALE_H_
