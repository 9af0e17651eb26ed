#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_VERIFY_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_VERIFY_REQUESTS_H_

#include "absl/status/status.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/job/share_comparison.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"

namespace muster {

// TaskService.VerifyStep: gathers what all tasks that train together computed of a step's shares,
// and compares it (job/share_comparison.h).
//
//   all agree             the step is noted as right (JobRecord.verified_clock) and then all are
//                         told, so whoever repeats the call is told the same
//   some are wrong        the job leaves their workers, whose tasks end. In rounds the others meet
//                         again and repeat the step; otherwise they wait here for the task that
//                         takes the slot, and are compared with it
//   nobody can tell yet   those who have computed the least compute one more share
//   nobody ever can       the job fails: each slot has computed every share twice. Of three data
//                         ranks at least two must be wrong for that
//
// Logic thread only.
class VerifyRequests {
 public:
  // Both outlive it.
  VerifyRequests(JobTable& jobs, JobLifecycle& lifecycle) : jobs_(jobs), lifecycle_(lifecycle) {}

  // Takes the request of a present task of the job. See proto/task_service.proto for errors; others
  // are the store's, and the call may be repeated.
  void Verify(Job& job, const v1::VerifyStepRequest& request, Call<v1::VerifyStepReply> call);

 private:
  // Decides on what all slots have told.
  absl::Status Decide(Job& job);
  absl::Status NoteRight(Job& job);
  absl::Status LeaveWrong(Job& job, const StepVerdict& verdict);
  // Asks those that are behind for one more share; the job fails if they have computed all.
  absl::Status AskForMore(Job& job, const StepVerdict& verdict, uint32_t data_ranks);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_VERIFY_REQUESTS_H_
