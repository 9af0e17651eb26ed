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
#include "server/coordinator/scheduling/elastic_slots.h"

namespace muster {

// Gives jobs what they need, or says what they wait for. Jobs that recover come first, then jobs
// that wait for their first placement, both in order of submission. A job that does not fit now,
// but would if nothing else ran, holds back all that were submitted after it, so that small jobs
// cannot starve a large one. A job that the cluster is too small for holds back nobody.
//
// Jobs that recover could wait for each other's slots. The jobs submitted last then give theirs
// back, as many as the first one needs. A job that can go on with fewer workers (min_workers) is
// left out of this, and holds back nobody. What is then free goes to jobs that can use it, which
// give it back to jobs that wait (ElasticSlots). Logic thread only.
class Scheduler {
 public:
  // All references outlive it. `elastic_wait`: see CoordinatorOptions.
  Scheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle, const Clock& clock,
            CoordinatorMetrics& metrics, absl::Duration elastic_wait);

  // Places what can be placed. Idempotent.
  absl::Status Run();

 private:
  // State of one run: what earlier jobs leave to later ones.
  struct Turn {
    ClusterCapacity capacity;
    // The job that the others wait behind; null: none.
    const Job* blocked_by = nullptr;
    // Jobs that recover and wait for slots, in order of submission.
    std::vector<Job*> short_of_slots;
  };

  absl::Status RunRecovering(Job& job, Turn& turn);
  absl::Status FillSlots(Job& job, Turn& turn);
  absl::Status PlaceWhole(Job& job, Turn& turn);
  // Places a job with as many workers as there are, once it has waited long enough; else an error.
  absl::StatusOr<Assignment> PlaceFewer(const Job& job, Demand demand, Turn& turn) const;
  absl::Status StorePlacement(Job& job, const Assignment& assignment);
  void NoteUnplaced(Job& job) const;
  // Makes jobs that wait for each other's slots give theirs back. Returns whether some did.
  absl::StatusOr<bool> SettleRivals(const Turn& turn);

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  const absl::Duration elastic_wait_;
  ElasticSlots elastic_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_SCHEDULER_H_
