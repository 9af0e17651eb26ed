#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_DEPARTURES_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_DEPARTURES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"

namespace muster {

// Takes tasks off workers that were told to leave (Member::leaves), before these end, off workers
// that their job has left (left_workers.h), and off slots that other jobs wait for and their own
// can do without (ElasticSlots).
//
//   what the task is in               when its slot is given up
//
//   a round                           after a step: all tasks of the round meet (RoundFormation),
//                                     and the others go on from there
//   a round, if it alone has what     after one more meeting, in which others take copies of that
//   others need, with min_workers
//   a job on servers                  after a step: the task is told to end
//   the same, with min_workers, if    after a step, at which all tasks end and the others go on
//   enough stay                       (MemberChanges)
//   either, if its loss is final      once a checkpoint was committed since, to which the job then
//   otherwise                         goes back
//   no round yet, or it has not begun at once
//   a program                         never: its processes save what they want in a grace of their
//                                     own
//
// A slot that was given up gets a task on another worker, or waits for one; with min_workers the
// others go on meanwhile. If all workers leave, nobody could take over, and slots are given up at
// once. What is not given up in the worker's grace is lost with the worker. Logic thread only.
class Departures {
 public:
  // All references outlive it.
  Departures(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle)
      : jobs_(jobs), members_(members), lifecycle_(lifecycle) {}

  // Gives up what can be given up, and marks the tasks that are to leave. Idempotent. Errors are
  // the store's.
  absl::Status Run();

 private:
  // Returns the job's slots that are to be given up.
  std::vector<uint32_t> LeavingSlots(const Job& job) const;
  // Do what can be done now to give the slots of one job up; the second is for jobs that train in
  // rounds.
  absl::Status Leave(Job& job, const std::vector<uint32_t>& slots);
  absl::Status LeaveRound(Job& job, std::vector<uint32_t> slots);
  // Gives slots up whose loss is final, once there is a checkpoint to go back to.
  absl::Status LeaveAfterCheckpoint(Job& job, const std::vector<uint32_t>& slots);

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_DEPARTURES_H_
