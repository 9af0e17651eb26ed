#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_ADJUST_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_ADJUST_REQUESTS_H_

#include "absl/status/status.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// TaskService.Adjust: gathers the requests of all tasks that train together, decides once
// (adjust/decide.h), stores the decision in the job's record, and only then tells all of them. So a
// task that repeats the call, and one that takes another's place, is told the same. Logic thread
// only.
class AdjustRequests {
 public:
  // `jobs` outlives it.
  explicit AdjustRequests(JobTable& jobs) : jobs_(jobs) {}

  // Takes the request of a present task of the job. CANCELLED, by all-reduce only: the round is
  // over. FAILED_PRECONDITION: others ask at another clock. Otherwise errors are the store's; the
  // call may be repeated.
  void Adjust(Job& job, const v1::AdjustRequest& request, Call<v1::AdjustReply> call);

 private:
  absl::Status Decide(Job& job);

  JobTable& jobs_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_ADJUST_REQUESTS_H_
