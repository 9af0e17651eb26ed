#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_LIFECYCLE_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_LIFECYCLE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/metrics/coordinator_metrics.h"

namespace muster {

// Has the disk work on checkpoints done on a thread of its own, and takes its results back to the
// logic thread, where all else here runs. A checkpoint exists for a job once its record says so,
// which is after its manifest is on disk.
class CheckpointLifecycle {
 public:
  // All references outlive it, and what it posted has run before it goes. A job's tasks and servers
  // write no more files once it has ended for as long as `lease`.
  CheckpointLifecycle(JobTable& jobs, CheckpointArchive& archive, SerialExecutor& logic,
                      SerialExecutor& disk, const Clock& clock, CoordinatorMetrics& metrics,
                      absl::Duration lease);

  // Completes a checkpoint, and then drops those beyond the job's `keep` and what earlier cuts left
  // behind. A repeat joins the one under way, and takes the place of the slot's call that waits for
  // it; another one waits for that. A clock whose checkpoint the record knows already is answered
  // at once, whatever the files: it keeps those that it has. REQUIRES: the caller speaks for the
  // job (see SpeakingSlot).
  void Commit(Job& job, const v1::CommitCheckpointRequest& request,
              Call<v1::CommitCheckpointReply> call);

  // A cut could not be written: notes what the last one waits for; removes what was written of one
  // that is given up, and answers then. REQUIRES: as Commit; the request has a failure.
  void CutFailed(Job& job, const v1::CommitCheckpointRequest& request,
                 Call<v1::CommitCheckpointReply> call);

  // Removes what cuts of jobs that have ended left behind.
  void SweepEnded();

  // Removes an ended job with its checkpoints, then calls `done` (may be null) on the logic thread.
  // A repeat while it is under way is answered when that one is done.
  void RemoveJob(Job& job, std::function<void(absl::Status)> done);

  // FAILED_PRECONDITION: the job has not ended, or another one that has not starts from its
  // checkpoints.
  absl::Status CheckRemovable(const Job& job) const;

  // FAILED_PRECONDITION: one of the job's checkpoints is where it, or another job, would start.
  absl::Status CheckUnneeded(const Job& job, const std::string& uri) const;

 private:
  // Has the checkpoint completed. REQUIRES: the job has none under way.
  void Complete(Job& job, const v1::CommitCheckpointRequest& request);
  void RemoveLeftovers(const Job& job, uint64_t reached);
  void Completed(const v1::CommitCheckpointRequest& request,
                 absl::StatusOr<CompletedCheckpoint> completed);
  // `dropped` gets the folders of those that are not kept any more, newest first.
  absl::Status Record(Job& job, const v1::CommitCheckpointRequest& request,
                      const CompletedCheckpoint& completed, std::vector<std::string>& dropped);
  // Another job that may have to read the checkpoint yet; null: none.
  const Job* NeededBy(const Job& job, const std::string& uri) const;

  JobTable& jobs_;
  CheckpointArchive& archive_;
  SerialExecutor& logic_;
  SerialExecutor& disk_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  const absl::Duration lease_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_LIFECYCLE_H_
