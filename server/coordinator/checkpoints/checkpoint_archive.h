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

namespace muster {

namespace v1 {
class CheckpointStatus;
class CommitCheckpointRequest;
class VerifyCheckpointReply;
}  // namespace v1

struct CompletedCheckpoint {
  std::string folder;
  // Of a delta: the clock of the checkpoint that it goes on from.
  std::optional<uint64_t> base_clock;
};

// What the coordinator does with checkpoints on disk. Calls block; thread-safe.
class CheckpointArchive {
 public:
  virtual ~CheckpointArchive() = default;

  // Under which a job's checkpoints lie: what tasks and servers are given.
  virtual const std::string& root() const = 0;

  // Makes the files of a cut a complete checkpoint. A manifest that is there is of one that does
  // not count (damaged, or never recorded) and goes first. DATA_LOSS: a file is not there or not
  // whole. FAILED_PRECONDITION: the manifest cannot be written now, or the checkpoint that they go
  // on from is gone; take the next one whole. INVALID_ARGUMENT: the request does not describe one
  // file per partition. REQUIRES: the job has no sound checkpoint at this clock; one call at a time
  // for a job.
  virtual absl::StatusOr<CompletedCheckpoint> Complete(const v1::CommitCheckpointRequest& request,
                                                       absl::Time created) = 0;

  // Removes one checkpoint, or all of a job. OK if there is none.
  virtual absl::Status RemoveCheckpoint(absl::string_view folder) = 0;
  // Removes what a job's cuts left behind that were not committed.
  virtual absl::Status RemoveLeftovers(absl::string_view job_id, const LeftoverLimits& limits) = 0;
  // Removes files of a cut that was given up, by their names in the clock's folder.
  virtual absl::Status RemoveFiles(absl::string_view job_id, uint64_t clock,
                                   const std::vector<std::string>& files) = 0;
  virtual absl::Status RemoveJob(absl::string_view job_id) = 0;

  // What a checkpoint's manifest says, without reading its files. NOT_FOUND, DATA_LOSS,
  // FAILED_PRECONDITION: it is gone, damaged, or of a newer format.
  virtual absl::StatusOr<v1::CheckpointStatus> Describe(absl::string_view folder) const = 0;

  // How the data of a checkpoint's weights were prepared: CheckpointManifest.data_preparation.
  // Errors as Describe, and PERMISSION_DENIED: the folder lies outside of what jobs may name.
  virtual absl::StatusOr<std::string> DataPreparation(absl::string_view folder) const = 0;

  // Reads all files of a checkpoint, and of those that it goes on from, and says which of them are
  // damaged. NOT_FOUND: there is none.
  virtual absl::StatusOr<v1::VerifyCheckpointReply> Verify(absl::string_view folder) const = 0;

  // Writes the checkpoint's weights as one safetensors file to `sink`, in pieces, until it returns
  // an error, which is returned. DATA_LOSS: the checkpoint is damaged.
  virtual absl::Status Export(absl::string_view folder,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_CHECKPOINT_ARCHIVE_H_
