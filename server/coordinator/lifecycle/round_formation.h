#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FORMATION_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FORMATION_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"

namespace muster {

// The meetings of tasks that train by all-reduce.
//
// A round is a group of tasks that train together, each with a replica of the parameters. When one
// is lost, the collective calls of the others fail, and they come here again, each with the last
// round it was given and the clock of its replica; the lost slot's next task comes with neither.
// Once every slot's present task is here, the next round opens: all get the same answer, which
// names their addresses by rank and the slot whose replica all go on from. The round's number is
// stored before anybody is told it, so no two rounds of a generation have the same one. The answer
// itself is not: a task that repeats its call gets the same one while the round lasts and this
// process lives; after a restart it waits for the next round, to which the others come as soon as
// they notice that it is missing.
//
// Rounds that follow one another without a step, since a network between workers is cut, say, begin
// later and later: all are there, and are answered after a pause. Their event and the job's status
// say what the tasks said of the round before. A step that is finished ends this.
//
// A job with min_workers does not wait longer than `elastic_wait` for slots that no worker is free
// for. When their tasks come after all, the others are told so (MeetAfter), and leave the round
// between two steps to meet again.
//
// When no task has a replica left, but steps were made, the job goes back to its last checkpoint.
// Logic thread only.
class RoundFormation {
 public:
  // All references outlive it.
  RoundFormation(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock,
                 absl::Duration elastic_wait);

  // The present task of a slot comes to meet the others. Parked until the next round opens.
  // INVALID_ARGUMENT: it names a round that there was not. FAILED_PRECONDITION, which ends the job:
  // see Rendezvous and CompareWithJob.
  void Arrive(Job& job, const v1::RendezvousRequest& request, Call<v1::RendezvousReply> call);

  // The round that tasks are to leave, or 0.
  uint64_t MeetAfter(const Job& job) const;

  // Opens the rounds that time has made possible.
  void OpenRounds();

 private:
  // Nobody waits for this slot any more.
  bool GivenUp(const Job& job, uint32_t slot) const;
  // All whom the next round waits for, and enough for one.
  bool AllAreThere(const Job& job) const;
  void OpenIfDue(Job& job);
  // REQUIRES: AllAreThere(job).
  void OpenAfterPause(Job& job);
  void Open(Job& job, const Rendezvous::Round& round);
  void AnswerParked(Job& job, const absl::StatusOr<v1::RendezvousReply>& reply);
  void Fail(Job& job, const absl::Status& why);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  const absl::Duration elastic_wait_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_ROUND_FORMATION_H_
