#ifndef MUSTER_COMMON_BASE_LOSS_SCALE_H_
#define MUSTER_COMMON_BASE_LOSS_SCALE_H_

#include <cstdint>

namespace muster {

// How far a slot that computes in f16 has come in finding its loss scale. State of the slot: cuts
// hold it, and tasks that go on from a checkpoint read it.
struct LossScale {
  // A power of two.
  float scale = 0;
  // Since the scale changed.
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
