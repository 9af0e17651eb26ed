#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_ELASTIC_SLOTS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_ELASTIC_SLOTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Gives free slots to jobs that can use more than their workers (JobSpec.max_workers), and asks for
// them back when another job waits. Such jobs grow and shrink by whole groups of slots, in turn,
// those submitted first at first. A job that had to give slots back takes none for a while, so that
// short jobs do not make it change all the time. Logic thread only.

// Time for which a job that gave slots back takes no others.
inline constexpr absl::Duration kGrowthPause = absl::Seconds(30);

// Returns the number of neighbouring slots that take part in a round together or not at all.
uint32_t GroupOf(const v1::JobSpec& spec);

class ElasticSlots {
 public:
  // All references outlive it.
  ElasticSlots(JobTable& jobs, const Clock& clock) : jobs_(jobs), clock_(clock) {}

  // Gives away what is free in `capacity`. Call it when no job waits for slots. Errors are the
  // store's.
  absl::Status Grow(ClusterCapacity& capacity);

  // Asks for as many slots back as `waiting` needs to be placed, those of the jobs submitted last
  // first; for none if that would not be enough. `capacity` is what is free now. Null: no job
  // waits, and nothing is asked for. Departures then gives them up.
  void AskBack(const Job* waiting, ClusterCapacity capacity);

 private:
  // Gives the job one more group of slots. Returns whether it took some.
  absl::StatusOr<bool> GrowOnce(Job& job, ClusterCapacity& capacity);

  JobTable& jobs_;
  const Clock& clock_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_ELASTIC_SLOTS_H_
