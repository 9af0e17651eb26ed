#ifndef MUSTER_SERVER_COORDINATOR_JOB_VIEW_H_
#define MUSTER_SERVER_COORDINATOR_JOB_VIEW_H_

#include "proto/status.pb.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_table.h"
#include "server/coordinator/membership.h"

namespace muster {

// A job as its users see it.
v1::JobStatus StatusOf(const Job& job);

// All daemons, by id.
std::vector<v1::DaemonStatus> DaemonsOf(const JobTable& jobs, const Membership& members);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_VIEW_H_
