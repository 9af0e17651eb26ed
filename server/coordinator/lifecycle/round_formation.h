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

// Forms rounds of tasks that make collective calls (TrainsInRounds).
//
// A round is a group of tasks that train together, each with a replica of the parameters. When a
// task is lost, the collective calls of the others fail, and they come here again with their last
// round and their replica's clock; in jobs with several shards also with what they kept of other
// shards and of the last step. The lost slot's next task comes with nothing. Once every slot's
// present task is here, the next round opens: all get the same answer, which names their addresses
// by rank and the slot whose clock all continue from. The round's number is stored before anybody
// is told, so no two rounds of a generation share one. The answer is not stored. A task that
// repeats its call gets it again while the round lasts and this process lives; after a restart the
// task waits for the next round, to which the others come once they notice that it is missing. The
// processes of a program notice nothing, so what their tasks are told is stored.
//
// Rounds in a row without a step, for example while a network is cut, open after longer and longer
// pauses. Their event and the job's status say why the last one ended. A step resets the pause.
//
// If servers hold the parameters, tasks have nothing to give each other: they open the tables again
// in each round, and no job goes back for lack of a replica.
//
// A job with min_workers waits at most `elastic_wait` for slots that no worker is free for, and not
// at all for those that left in an orderly way. If their tasks come later, the others leave the
// round between two steps to meet again (MeetAfter). So do all tasks when one of theirs is to leave
// (Departures).
//
// A job that has advanced and has lost all replicas of a shard, copies included, goes back to a
// checkpoint (common/mesh/recovery_plan.h). So does a job whose
// losses are final (common/job/job_road.h), once a task of its round is lost or all have come here
// again. Until then those that came wait, as after any round: one task's own error is what makes
// the calls of the others fail, and that error decides what becomes of the job, whichever news is
// first. Logic thread only.
class RoundFormation {
 public:
  // All references outlive it.
  RoundFormation(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock,
                 absl::Duration elastic_wait);

  // Takes the call of a slot's present task that comes to meet the others; parks it until the next
  // round opens. INVALID_ARGUMENT: the task names a round that there was not. FAILED_PRECONDITION,
  // which ends the job unless it can do without the slot: see Rendezvous and CompareWithJob.
  void Arrive(Job& job, const v1::RendezvousRequest& request, Call<v1::RendezvousReply> call);

  // Returns the round that tasks are to leave, or 0.
  uint64_t MeetAfter(const Job& job) const;

  // Returns the round whose tasks are to end their calls at once, since one of them is lost, or 0.
  uint64_t Lost(const Job& job) const;

  // Opens the rounds that have become possible with time.
  void OpenRounds();

 private:
  // Returns whether the next round no longer waits for this slot.
  bool GivenUp(const Job& job, uint32_t slot) const;
  // Returns whether all slots that the next round waits for are there, and enough for a round.
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
