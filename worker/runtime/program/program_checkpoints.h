#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CHECKPOINTS_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CHECKPOINTS_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// What servers held of a program's parameters at the step of a checkpoint, in files that they wrote
// beside the program's.
struct ServedCut {
  struct File {
    std::string path;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
  };

  // A serialised v1::TablesSchema, and the files by partition; empty on all ranks but one.
  std::string schema;
  std::vector<File> files;
};

// The checkpoints that one process of a program writes. Each begins as an empty folder below the
// job's checkpoints. To commit it, every file is made durable and gets a plain name of its own
// beside the folder; the coordinator is told of the files, and the program's own names for them are
// in the manifest (common/checkpoint/manifest.h). Thread-safe.
class ProgramCheckpoints {
 public:
  struct Options {
    // The folder of all checkpoints, as a path.
    std::string root;
    std::string job_id;
    uint64_t generation = 0;
    uint32_t slot = 0;
  };

  // `coordinator` outlives this object.
  ProgramCheckpoints(Options options, CoordinatorClient& coordinator);
  // Removes what was begun and not committed.
  ~ProgramCheckpoints();

  // Returns an empty folder for the checkpoint at `step`, and removes what was begun before.
  // InvalidArgument: step is 0. Other errors are the file system's.
  absl::StatusOr<std::string> Begin(uint64_t step);

  // The share that the files have of the checkpoint.
  enum class Share {
    // All processes have a part, and this call waits for all.
    kPart,
    // The files are the whole checkpoint.
    kWhole,
  };
  // Commits what was begun, and `served` with it. Blocks until the coordinator has.
  // InvalidArgument: nothing was begun at this step, there is something other than files and
  // folders, a file has a hard link elsewhere, is written to meanwhile or has a name of servers'
  // files, or the coordinator refused the files. The files become read-only. FailedPrecondition: it
  // cannot be written now; take the next one. Cancelled: the task ends. Other errors are the file
  // system's and the coordinator's.
  absl::Status Commit(uint64_t step, Share share, const ServedCut& served,
                      const std::stop_token& stop);

  // Removes what was begun, if anything was.
  void Drop();

 private:
  struct Begun {
    uint64_t step = 0;
    // The folder that the program writes to, and the checkpoint's own above it.
    std::string folder;
    std::string checkpoint;
  };

  void DropLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  CoordinatorClient& coordinator_;
  absl::Mutex mutex_;
  absl::optional<Begun> begun_ ABSL_GUARDED_BY(mutex_);
};

// Makes `folder` show the files of a program's checkpoint, but not its servers', under the names
// that the program gave them, as symbolic links. `checkpoint` is its folder. DataLoss: the
// checkpoint is damaged or gone.
absl::Status ShowCheckpoint(const std::string& checkpoint, const std::string& folder);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CHECKPOINTS_H_
