#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_DECIDE_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_DECIDE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/optional.h"
#include "proto/adjustment.pb.h"

namespace muster {

namespace v1 {
class JobRecord;
}  // namespace v1

// The speed of a data rank: that of its slowest slot's own work.
struct DataRankSpeed {
  // 0: not known.
  double examples_per_second = 0;
  uint32_t slot = 0;
};

// The facts that are known when something may be decided for a job.
struct AdjustmentFacts {
  // The job, with all evaluations and adjustments up to the clock.
  const v1::JobRecord& record;
  // Number of steps made before those that the decision is for.
  uint64_t clock = 0;
  // The gradient noise scale in examples; absent: no task knows it.
  absl::optional<double> noise_scale;
  // The speed of each data rank.
  std::vector<DataRankSpeed> speeds;
};

// Decides what changes for the steps from the clock on: asks each decider in turn. Absent: nothing
// changes. A pure function, so a coordinator that was restarted before it had stored its decision
// decides the same.
std::optional<v1::Adjustment> DecideAdjustment(const AdjustmentFacts& facts);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_DECIDE_H_
