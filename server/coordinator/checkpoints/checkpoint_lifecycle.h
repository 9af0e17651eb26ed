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

// Commits, retires and removes checkpoints. Disk work runs on the executor `disk`; its results come
// back to the logic thread, where all else here runs. A checkpoint exists for a job once the job's
// record says so, which is after its manifest is on disk.
class CheckpointLifecycle {
 public:
  // All references outlive it, and the executors run all that it posted before it is destroyed.
  // `lease`: a job's tasks and servers write no more files once the job has ended for this long.
  CheckpointLifecycle(JobTable& jobs, CheckpointArchive& archive, SerialExecutor& logic,
                      SerialExecutor& disk, const Clock& clock, CoordinatorMetrics& metrics,
                      absl::Duration lease);

  // Completes a checkpoint, then drops those beyond the job's `keep`, except for the best and what
  // it goes on from (BestEvaluation), and what earlier cuts left behind. A repeat joins the commit
  // under way and replaces the slot's parked call; a different commit waits for it. A clock with a
  // recorded sound checkpoint is answered at once and keeps its files, whatever the request names.
  // REQUIRES: the caller speaks for the job (see SpeakingSlot).
  void Commit(Job& job, const v1::CommitCheckpointRequest& request,
              Call<v1::CommitCheckpointReply> call);

  // Handles a cut that failed. If it is tried again, notes what the checkpoint waits for. If it was
  // given up, removes its files, then answers. An event tells of the first failure. REQUIRES: as
  // Commit; the request has a failure.
  void CutFailed(Job& job, const v1::CommitCheckpointRequest& request,
                 Call<v1::CommitCheckpointReply> call);

  // Removes what the cuts of ended jobs left behind, and their checkpoints beyond `keep` that
  // nobody needs any more.
  void SweepEnded();

  // Removes an ended job with its checkpoints, then calls `done` on the logic thread, if not null.
  // A repeat while the removal is under way finishes after it.
  void RemoveJob(Job& job, std::function<void(absl::Status)> done);

  // Checks that a job may go. FAILED_PRECONDITION: it, or a job that starts from it, has not ended.
  absl::Status CheckRemovable(const Job& job) const;

  // Checks that a checkpoint may go. FAILED_PRECONDITION: this or another job would start from it.
  absl::Status CheckUnneeded(const Job& job, const std::string& uri) const;

 private:
  // Starts to complete a checkpoint. REQUIRES: the job has none under way.
  void Complete(Job& job, const v1::CommitCheckpointRequest& request);
  void RemoveLeftovers(const Job& job, uint64_t reached);
  // Adds the event, unless one has told of a failed cut since the last commit: disks that are full
  // stay full for a while, and the next commit's event names all checkpoints that are missing.
  void TellOfFailedCut(Job& job, const std::string& event);
  void Completed(const v1::CommitCheckpointRequest& request,
                 absl::StatusOr<CompletedCheckpoint> completed);
  // Adds a checkpoint to the job's record; `request` has the time that all of it took. `dropped`
  // gets the folders no longer kept, newest first.
  absl::Status Record(Job& job, const v1::CommitCheckpointRequest& request,
                      const CompletedCheckpoint& completed, std::vector<std::string>& dropped);
  // Takes the checkpoints that are not kept out of the job's record, and returns their folders,
  // newest first.
  std::vector<std::string> TakeSuperseded(const Job& job, v1::JobRecord& record) const;
  // Drops what is not kept of an ended job's checkpoints.
  void DropSuperseded(Job& job);
  // Returns an unfinished job that may still read the checkpoint; null: none.
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
