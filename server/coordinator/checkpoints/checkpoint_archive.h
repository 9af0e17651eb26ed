#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_ARCHIVE_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_ARCHIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/program/shipped_archives.h"

namespace muster {

namespace v1 {
class CheckpointStatus;
class CommitCheckpointRequest;
class VerifyCheckpointReply;
}  // namespace v1

struct CompletedCheckpoint {
  std::string folder;
  // Clock of the checkpoint that a delta goes on from; absent: it is no delta.
  std::optional<uint64_t> base_clock;
};

// The coordinator's access to checkpoints on disk. Calls block. Thread-safe.
class CheckpointArchive {
 public:
  virtual ~CheckpointArchive() = default;

  // Returns the folder that holds the jobs' checkpoints, as tasks and servers are told it.
  virtual const std::string& root() const = 0;

  // Returns the shipped folders of jobs that run programs, below the same root. They live as long
  // as the archive.
  virtual ShippedArchives& shipped() = 0;

  // Makes the files of a cut a complete checkpoint by writing its manifest. A manifest that is
  // there belongs to a checkpoint that does not count (damaged, or never recorded) and is removed
  // first. DATA_LOSS: a file is missing or incomplete. FAILED_PRECONDITION: the manifest cannot be
  // written now, or the base checkpoint is gone; take the next one whole. INVALID_ARGUMENT: the
  // request does not describe one file for each partition and for each rank that writes a file.
  // REQUIRES: the job has no sound checkpoint at this clock; one call at a time per job.
  virtual absl::StatusOr<CompletedCheckpoint> Complete(const v1::CommitCheckpointRequest& request,
                                                       absl::Time created) = 0;

  // Removes one checkpoint; RemoveJob removes all of a job. OK if there is none.
  virtual absl::Status RemoveCheckpoint(absl::string_view folder) = 0;
  // Removes files of a job's cuts that were never committed.
  virtual absl::Status RemoveLeftovers(absl::string_view job_id, const LeftoverLimits& limits) = 0;
  // Removes files of a cut that was given up, by their names in the clock's folder.
  virtual absl::Status RemoveFiles(absl::string_view job_id, uint64_t clock,
                                   const std::vector<std::string>& files) = 0;
  virtual absl::Status RemoveJob(absl::string_view job_id) = 0;

  // Returns what a checkpoint's manifest says, without reading the other files. NOT_FOUND: it is
  // gone. DATA_LOSS: it is damaged. FAILED_PRECONDITION: its format is newer.
  virtual absl::StatusOr<v1::CheckpointStatus> Describe(absl::string_view folder) const = 0;

  // Returns CheckpointManifest.data_preparation: how the data of the weights were prepared. Errors
  // as Describe's, and PERMISSION_DENIED: jobs may not name this folder.
  virtual absl::StatusOr<std::string> DataPreparation(absl::string_view folder) const = 0;

  // Reads all files of a checkpoint, and of those that it goes on from, and reports the damaged
  // ones. NOT_FOUND: there is no checkpoint.
  virtual absl::StatusOr<v1::VerifyCheckpointReply> Verify(absl::string_view folder) const = 0;

  // Writes the checkpoint's weights to `sink` as one safetensors file, part by part. Stops at the
  // first error of `sink` and returns it. DATA_LOSS: the checkpoint is damaged. INVALID_ARGUMENT:
  // it has no averages.
  virtual absl::Status Export(absl::string_view folder, ExportedValues values,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_ARCHIVE_H_
