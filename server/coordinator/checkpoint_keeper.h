#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINT_KEEPER_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINT_KEEPER_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

namespace v1 {
class CommitCheckpointRequest;
}  // namespace v1

// What the coordinator does with checkpoints on disk. Calls block; thread-safe.
class CheckpointKeeper {
 public:
  virtual ~CheckpointKeeper() = default;

  // Under which a job's checkpoints lie: what tasks and servers are given.
  virtual const std::string& root() const = 0;

  // Makes the files of a cut a complete checkpoint and returns its folder. DATA_LOSS: a file is not
  // there or not whole. INVALID_ARGUMENT: the request does not describe one file per partition.
  virtual absl::StatusOr<std::string> Complete(const v1::CommitCheckpointRequest& request,
                                               absl::Time created) = 0;

  // Removes one checkpoint, or all of a job. OK if there is none.
  virtual absl::Status RemoveCheckpoint(absl::string_view folder) = 0;
  virtual absl::Status RemoveJob(absl::string_view job_id) = 0;

  // Writes the checkpoint's weights as one safetensors file to `sink`, in pieces, until it returns
  // an error, which is returned. DATA_LOSS: the checkpoint is damaged.
  virtual absl::Status Export(absl::string_view folder,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINT_KEEPER_H_
