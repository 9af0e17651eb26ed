#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STEP_OUTCOME_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STEP_OUTCOME_H_

#include <cstdint>
#include <limits>

#include "absl/types/optional.h"

namespace muster {

// How a step ended, the same on all ranks. With the sums of a shard it is all that making the step
// takes. Trivially copyable, because ranks send it to one another; all run the same version of the
// program.
struct StepOutcome {
  // The number of steps before this one.
  uint64_t clock = 0;
  // The number of examples of all ranks.
  uint64_t examples = 0;
  // The number of the first tensor whose sum of scaled gradients is not finite, for which the step
  // is left out; -1: there is none.
  static constexpr int64_t kSomeTensor = std::numeric_limits<int32_t>::max();
  int64_t overflowed = -1;
  // The factor by which clipping by global norm scales the mean gradient.
  double scale = 1;
  // The factor of the scheduled learning rate (Adjustment.rate_factor).
  double rate_factor = 1;
  // The norm of the mean gradient before clipping; absent: it was not measured.
  absl::optional<double> norm;

  // Returns whether parameters change.
  bool moves() const { return overflowed < 0 && examples > 0; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STEP_OUTCOME_H_
