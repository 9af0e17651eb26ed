#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/job/rendezvous.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/metrics/coordinator_metrics.h"

namespace muster {

// Moves jobs through their states after they are placed: when tasks meet, end, die, or lose their
// daemons. Every decision is committed to the table first; only then are parked calls answered and
// orders changed. All calls are idempotent: what could not be stored is tried again when the same
// event is noticed next. All errors are the store's. Logic thread only.
class JobLifecycle {
 public:
  // All references outlive it.
  JobLifecycle(JobTable& jobs, const Membership& members, const Clock& clock,
               CoordinatorMetrics& metrics);

  // Compares the job with the live daemons and starts recovery of what was lost.
  absl::Status Reconcile(Job& job);

  // Notes that all slots that train in the generation met and agreed on `met`; if it takes over
  // tables, it goes on at the clock that its first slot brought.
  absl::Status Met(Job& job, const v1::RendezvousRecord& met);

  // All-reduce only: starts a round of the slots in `round`, who agreed on `met` and will be told
  // `secret`. Under scale_batch the batch follows the number of data ranks. The event says why the
  // last round ended (job.round_failures).
  absl::Status OpenRound(Job& job, const v1::RendezvousRecord& met, const Rendezvous::Round& round,
                         absl::string_view secret);
  // All-reduce only: takes the job back, since the round that `slot` left broke for good
  // (BrokeForGood).
  absl::Status RoundBroke(Job& job, uint32_t slot);
  // All-reduce only: takes the job back, since all came to meet and some shard has no replica or
  // copy left. `why` says which.
  absl::Status ReplicasLost(Job& job, const std::string& why);

  // Gives a stuck job's slots up, for a job that was submitted earlier and waits for them.
  absl::Status GiveBackSlots(Job& job, const std::string& for_job);

  // Gives slots up whose workers must leave, or that another job waits for, in an orderly way:
  // between two steps, if their tasks have come so far. With min_workers the others do not wait for
  // their next tasks. Where their loss is final, and they have not handed over what they have, the
  // job goes back to its last checkpoint.
  enum class HandedOver { kNo, kYes };
  absl::Status SlotsLeave(Job& job, const std::vector<uint32_t>& slots, HandedOver handed_over);

  // Has the job leave these workers for good, each with the reason that people are told
  // (left_workers.h), and gives the slots there up at once, as if the workers were lost: what they
  // have is not to be trusted. Their calls get ABORTED.
  absl::Status LeaveWorkers(Job& job, const std::map<std::string, std::string>& reasons);

  // Takes the job back to its last checkpoint so that it is placed anew.
  absl::Status PlaceAnew(Job& job, const std::string& why) { return GoBack(job, why); }

  // Notes a call of the slot's present task at `clock`. A recovering job may now be whole again.
  absl::Status Heard(Job& job, uint32_t slot, uint64_t clock);

  // Handles the end of the slot's present task: success (code 0) or failure. If the task found a
  // loss, the whole job goes back to a checkpoint that can be read. A program that ended in the
  // same way twice before any step or checkpoint fails the job, unless the job says how often it is
  // started again. A failed job's message ends with the task's. A task that was told to leave, or
  // to let the members change, and ended for that (CANCELLED), has not failed.
  absl::Status TaskEnded(Job& job, uint32_t slot, int code, absl::string_view message,
                         v1::TaskReport::Loss loss = v1::TaskReport::LOSS_UNSPECIFIED);
  // Takes the job back to before its training loss rose at step `step`, counted from 1, if it asks
  // for that (JobSpec.divergence) and may still; otherwise it fails. `why` says what the loss was.
  absl::Status Diverged(Job& job, uint64_t step, const std::string& why);
  // Handles the death of the slot's present task.
  absl::Status TaskDied(Job& job, uint32_t slot, absl::string_view message);
  // Ends the slot's present task, for which the others have waited for as long as they may.
  absl::Status TaskStalled(Job& job, uint32_t slot, absl::Duration waited);
  // Ends the slot's present task, whose program has reported nothing for as long as it may; `why`
  // says so of the slot.
  absl::Status ProgramSilent(Job& job, uint32_t slot, absl::string_view why);

  // Ends a job that is complete (IsComplete) and whose members were to change.
  absl::Status EndComplete(Job& job);

  absl::Status Fail(Job& job, const std::string& message);
  // Does nothing if the job has ended, as does Fail.
  absl::Status Cancel(Job& job, const std::string& reason);

 private:
  absl::Status RecoverServers(Job& job, const Losses& losses, JobChange& change);
  absl::Status GoBack(Job& job, const std::string& why);
  // Goes back from `change`, which RollBack has not seen; `rollbacks` were made in a row.
  absl::Status GoBackWith(Job& job, const std::string& why, uint32_t rollbacks, JobChange change);
  // Begins the generation that `change` says anew.
  absl::Status BeginAnew(Job& job, const std::string& why, uint32_t rollbacks, JobChange change);
  // Notes that the slot's task has ended so that the members can change.
  absl::Status EndedForChange(Job& job, uint32_t slot);
  // Gives the slots up in `change`; their calls get ABORTED with `why`.
  absl::Status GiveUp(Job& job, const std::vector<uint32_t>& slots, JobChange change,
                      absl::string_view why);
  // Handles damage to the checkpoint that the generation starts from.
  absl::Status CheckpointDamaged(Job& job, const std::string& why, absl::string_view damage);
  // Forgets the lost tasks of these slots, and answers their parked calls with `status`.
  void ForgetTasks(Job& job, const std::vector<uint32_t>& slots, const absl::Status& status);
  // Ends the slot's present task, which does not move, and tells an alert; `why` says so of the
  // slot.
  absl::Status Stalled(Job& job, uint32_t slot, absl::string_view why);
  // Gives the slot another task, after a wait that `patience` lengthens like as many failures.
  absl::Status Respawn(Job& job, uint32_t slot, absl::string_view why, uint32_t patience);
  absl::Status MaybeSucceed(Job& job);
  absl::Status Finish(Job& job, v1::JobState state, const std::string& message,
                      const std::string& event);
  // Returns whether every slot has a task that was heard, and every server is there.
  bool IsWhole(const Job& job) const;

  JobTable& jobs_;
  const Membership& members_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
