#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_STATUS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_STATUS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/status.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Says how much of a job is shown: see ListJobsRequest.View.
enum class JobView { kWhole, kShort };

// Returns a job as its users see it at a time of day.
v1::JobStatus StatusOf(const Job& job, int64_t now_unix_ms, JobView view = JobView::kWhole);

// Returns all daemons, in order of id. `now` is monotonic.
std::vector<v1::DaemonStatus> DaemonsOf(const JobTable& jobs, const Membership& members,
                                        absl::Duration now);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_STATUS_H_
