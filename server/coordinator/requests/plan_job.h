#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/plan/memory_plan.h"
#include "proto/job.pb.h"
#include "server/coordinator/cluster/cluster_capacity.h"

namespace muster {

struct PlannedJob {
  // With its defaults filled in.
  v1::JobSpec spec;
  MemoryPlan plan;
  // What memory is reserved by and may be wrong, for people; may be empty.
  std::string assumed;
  // Of the weights in a folder that the job starts from: CheckpointManifest.data_preparation.
  std::string data_preparation;
};

// Checks a specification, and plans its memory for the daemons of `whole`. Takes as long as the
// specification is large; thread-safe. InvalidArgument: names the field. ResourceExhausted: one
// task needs more memory than any worker has.
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const ClusterCapacity& whole);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_
