#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_LIST_JOBS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_LIST_JOBS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Returns one page of ListJobs. A page looks at a bounded number of jobs, so that no pattern of
// names holds up others. InvalidArgument: the page_token is malformed.
absl::StatusOr<v1::ListJobsReply> ListJobs(const JobTable& jobs,
                                           const v1::ListJobsRequest& request);

// Returns the job that people call so: the one with this id; else, of the jobs with exactly this
// name, the last submitted one that has not ended, else the last submitted one. Jobs that are being
// removed do not count. Null: there is none.
const Job* FindJobCalled(const JobTable& jobs, absl::string_view called);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_LIST_JOBS_H_
