#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_CHECKPOINT_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_CHECKPOINT_REQUESTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// JobService's calls about one job's checkpoints, without gRPC; see proto/job_service.proto for
// meaning and errors. Disk work runs on the executor `disk`, all else on the logic thread.
class CheckpointRequests {
 public:
  // All references outlive it, and `disk` runs all that it posted before it is destroyed.
  CheckpointRequests(JobTable& jobs, CheckpointLifecycle& lifecycle, CheckpointArchive& archive,
                     SerialExecutor& disk);

  void List(const std::string& job_id, Call<v1::ListCheckpointsReply> call);

  // Returns the folder that a request names. The caller verifies it (CheckpointArchive::Verify) on
  // another thread: that may take minutes, in which commits would wait on `disk`.
  absl::StatusOr<std::string> Folder(const v1::CheckpointRequest& request) const;
  // Returns what was found, or ABORTED if the checkpoint was removed meanwhile.
  absl::StatusOr<v1::VerifyCheckpointReply> Verified(
      const std::string& job_id, const std::string& folder,
      absl::StatusOr<v1::VerifyCheckpointReply> found) const;

  // Deletes checkpoints: first from the record, then their files. A crash in between leaves files
  // that are removed with the job, never a checkpoint that lacks some.
  void Delete(const v1::DeleteCheckpointRequest& request, Call<v1::DeleteCheckpointReply> call);

 private:
  absl::StatusOr<Job*> Find(const std::string& job_id) const;
  // Takes checkpoints out of the job's record if nobody needs them. Returns them, newest first.
  absl::StatusOr<std::vector<v1::CheckpointRecord>> Forget(
      const v1::DeleteCheckpointRequest& request);

  JobTable& jobs_;
  CheckpointLifecycle& lifecycle_;
  CheckpointArchive& archive_;
  SerialExecutor& disk_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_CHECKPOINT_REQUESTS_H_
