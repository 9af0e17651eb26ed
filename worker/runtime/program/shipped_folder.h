#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_SHIPPED_FOLDER_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_SHIPPED_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/descriptor.h"

namespace muster {

// A shipped folder (common/program/folder_archive.h) that is unpacked on this machine. The tasks of
// one job share it, also those of several daemons of one user; each job has its own, since programs
// may write there. The first task that needs it unpacks it under another name and renames it once
// its content is proven, so that nobody sees a part of it.
//
// It is removed once no task holds it: by the last one at its end or, where that was killed, by the
// next task or worker daemon that looks (RemoveUnusedFolders). So tasks of a job that start again
// together begin in a fresh copy. Kernel locks say who holds it, which end with their processes.
class ShippedFolder {
 public:
  struct Options {
    // The folder of all unpacked ones, which this user alone may enter; ShippedFoldersBase.
    std::string base;
    std::string checkpoint_root;
    std::string job_id;
    // As ProgramSpec.shipped.
    std::string name;
  };

  // Unpacks the folder unless another task has, and holds it. Waits while others unpack theirs.
  // FailedPrecondition: the checkpoint root of this machine does not have it, or `base` is not this
  // user's alone. DataLoss: its archive is damaged, or no archive. ResourceExhausted: there is no
  // space for it. InvalidArgument: job id or name is none. Unavailable: another process has been
  // unpacking for a minute. Other errors as FileError.
  static absl::StatusOr<std::unique_ptr<ShippedFolder>> Take(const Options& options);
  // Removes the folder unless another task holds it.
  ~ShippedFolder();

  ShippedFolder(const ShippedFolder&) = delete;
  ShippedFolder& operator=(const ShippedFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ShippedFolder(std::string base, std::string path, Descriptor held);

  const std::string base_;
  const std::string path_;
  // Its lock says that the folder is needed.
  Descriptor held_;
};

// Returns the folder of unpacked ones of this process's user: in TMPDIR, by the user's number.
std::string ShippedFoldersBase();

// Removes the unpacked folders that no task holds. Waits for up to 10 seconds while others unpack
// theirs. What cannot be removed now is tried again by the next one who looks.
void RemoveUnusedFolders(const std::string& base);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_SHIPPED_FOLDER_H_
