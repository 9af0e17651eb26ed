#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_

#include <cstdint>
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

// Moves jobs through their states after they are placed: what happens when tasks meet, end, die, or
// lose their daemons. Every decision is committed to the table first; only then are parked calls
// answered and may orders follow from it. All calls are idempotent, so what could not be stored is
// simply tried again when the same thing is noticed next. Logic thread only.
class JobLifecycle {
 public:
  // All references outlive it.
  JobLifecycle(JobTable& jobs, const Membership& members, const Clock& clock,
               CoordinatorMetrics& metrics);

  // Compares the job with the live daemons and starts recovery for what was lost.
  absl::Status Reconcile(Job& job);

  // All slots of the generation came together.
  absl::Status Met(Job& job, const v1::RendezvousRecord& met);

  // By all-reduce: those of `round`, who agreed on `met`, train together from now on. The event
  // says why the last round ended (job.round_failures).
  absl::Status OpenRound(Job& job, const v1::RendezvousRecord& met, const Rendezvous::Round& round);
  // By all-reduce: the slot's task, of the present round, came to meet again, though that cannot
  // be: others have ended, or the servers hold what no replica does. The job goes back.
  absl::Status RoundBroke(Job& job, uint32_t slot);
  // By all-reduce: all came to meet, none with a replica. The job goes back.
  absl::Status ReplicasLost(Job& job);

  // Makes room for a job that was submitted earlier and waits for it: the slots of this one, which
  // cannot go on either, are given up.
  absl::Status GiveBackSlots(Job& job, const std::string& for_job);

  // The job goes back to its last checkpoint so that it can be placed anew.
  absl::Status PlaceAnew(Job& job, const std::string& why) { return GoBack(job, why); }

  // The slot's present task called, having closed `clock` clocks; a recovering job may thereby be
  // whole again.
  absl::Status Heard(Job& job, uint32_t slot, uint64_t clock);

  // The slot's present task ended by itself: well (code 0), or not. What it found lost takes the
  // whole job back to a checkpoint that can be read.
  absl::Status TaskEnded(Job& job, uint32_t slot, int code, absl::string_view message,
                         v1::TaskReport::Loss loss = v1::TaskReport::LOSS_UNSPECIFIED);
  // … or died.
  absl::Status TaskDied(Job& job, uint32_t slot, absl::string_view message);
  // … or lives, but has kept the others waiting for as long as they may. Its daemon ends it.
  absl::Status TaskStalled(Job& job, uint32_t slot, absl::Duration waited);

  absl::Status Fail(Job& job, const std::string& message);
  // A job that ended stays as it is.
  absl::Status Cancel(Job& job, const std::string& reason);

 private:
  absl::Status RecoverServers(Job& job, const Losses& losses, JobChange& change);
  absl::Status GoBack(Job& job, const std::string& why);
  // As `change` has it, which RollBack has not seen yet; `rollbacks` were in a row.
  absl::Status GoBackWith(Job& job, const std::string& why, uint32_t rollbacks, JobChange change);
  // The checkpoint that the generation starts from cannot be read.
  absl::Status CheckpointDamaged(Job& job, const std::string& why, absl::string_view damage);
  // Of the slots' tasks that were lost, `status` is what their parked calls are told.
  void ForgetTasks(Job& job, const std::vector<uint32_t>& slots, const absl::Status& status);
  // `patience` counts like earlier failures towards the wait before the next task.
  absl::Status Respawn(Job& job, uint32_t slot, absl::string_view why, uint32_t patience);
  absl::Status MaybeSucceed(Job& job);
  absl::Status Finish(Job& job, v1::JobState state, const std::string& message,
                      const std::string& event);
  // Whether every slot has a task that was heard, and every server is there.
  bool IsWhole(const Job& job) const;

  JobTable& jobs_;
  const Membership& members_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_JOB_LIFECYCLE_H_
