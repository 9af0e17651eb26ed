#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULER_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULER_H_

#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "server/coordinator/coordinator_metrics.h"
#include "server/coordinator/job_table.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/placement.h"

namespace muster {

// Gives jobs what they need, or says what they wait for. Jobs that recover come first, then those
// that wait for their first placement, both in order of submission. A job that does not fit now,
// but would if nothing else ran, holds back all that were submitted after it, so that small jobs
// cannot starve a large one; a job that the cluster is too small for holds back nobody. Logic
// thread only.
class Scheduler {
 public:
  // All references outlive it.
  Scheduler(JobTable& jobs, const Membership& members, const Clock& clock,
            CoordinatorMetrics& metrics);

  // Places what can be placed. Idempotent.
  absl::Status Run();

 private:
  // What earlier jobs leave to later ones.
  struct Turn {
    ClusterRoom room;
    // The job that the others wait behind.
    std::string blocked_by;
  };

  absl::Status RunRecovering(Job& job, Turn& turn);
  absl::Status FillSlots(Job& job, Turn& turn);
  absl::Status PlaceWhole(Job& job, Turn& turn);

  JobTable& jobs_;
  const Membership& members_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULER_H_
