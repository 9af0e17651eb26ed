#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/memory/memory_plan.h"
#include "proto/job.pb.h"
#include "server/coordinator/cluster/cluster_capacity.h"

namespace muster {

struct PlannedJob {
  // The specification with its defaults filled in.
  v1::JobSpec spec;
  // The value of JobRecord.given.
  std::vector<std::string> given;
  MemoryPlan plan;
  // The value of JobRecord.flops_per_example.
  double flops_per_example = 0;
  // Assumptions of the memory plan that may be wrong, for people; may be empty.
  std::string assumed;
  // CheckpointManifest.data_preparation of the weights in a folder that the job starts from.
  std::string data_preparation;
};

// Checks a specification, and plans its memory for the daemons of `whole`. Takes time in proportion
// to the specification. Thread-safe. InvalidArgument names the field. ResourceExhausted: one task
// needs more memory than any worker has.
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const ClusterCapacity& whole);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_PLAN_JOB_H_
