#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_LAST_STEP_FOR_TESTING_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_LAST_STEP_FOR_TESTING_H_

#include <algorithm>
#include <cstdint>

#include "server/coordinator/history/job_history.h"

namespace muster {

// Returns the last step of any series; 0 if there is none.
inline uint64_t LastStep(const JobHistory& history) {
  uint64_t last = 0;
  for (const JobHistory::Named& named : history.series()) {
    last = std::max(last, named.series.last_step().value_or(0));
  }
  return last;
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_LAST_STEP_FOR_TESTING_H_
