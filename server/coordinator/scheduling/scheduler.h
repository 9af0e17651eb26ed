#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_SCHEDULER_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_SCHEDULER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/metrics/coordinator_metrics.h"

namespace muster {

// Gives jobs what they need, or says what they wait for. Jobs that recover come first, then those
// that wait for their first placement, both in order of submission. A job that does not fit now,
// but would if nothing else ran, holds back all that were submitted after it, so that small jobs
// cannot starve a large one; a job that the cluster is too small for holds back nobody.
//
// Jobs that recover could wait for each other's slots. Then those submitted last give theirs back,
// as many as it takes for the first. A job that goes on with fewer workers (min_workers) takes no
// part in this, and holds back nobody. Logic thread only.
class Scheduler {
 public:
  // All references outlive it. `elastic_wait`: see CoordinatorOptions.
  Scheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle, const Clock& clock,
            CoordinatorMetrics& metrics, absl::Duration elastic_wait);

  // Places what can be placed. Idempotent.
  absl::Status Run();

 private:
  // What earlier jobs leave to later ones.
  struct Turn {
    ClusterCapacity capacity;
    // The job that the others wait behind.
    std::string blocked_by;
    // Jobs that recover and wait for slots, in order of submission.
    std::vector<Job*> short_of_slots;
  };

  absl::Status RunRecovering(Job& job, Turn& turn);
  absl::Status FillSlots(Job& job, Turn& turn);
  absl::Status PlaceWhole(Job& job, Turn& turn);
  // For a job that has waited long enough to go on with fewer workers: as many as there are, or an
  // error.
  absl::StatusOr<Assignment> PlaceFewer(const Job& job, Demand demand, Turn& turn) const;
  absl::Status StorePlacement(Job& job, const Assignment& assignment);
  void NoteUnplaced(Job& job) const;
  // Makes jobs that wait for each other's slots give theirs back. True: some did.
  absl::StatusOr<bool> SettleRivals(const Turn& turn);

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  const absl::Duration elastic_wait_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_SCHEDULER_H_
