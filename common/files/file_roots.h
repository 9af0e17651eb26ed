#ifndef MUSTER_COMMON_FILES_FILE_ROOTS_H_
#define MUSTER_COMMON_FILES_FILE_ROOTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Folders that bound what others can name: nothing outside of them is opened, whatever links and
// ".." a path has. Immutable, so thread-safe.
class FileRoots {
 public:
  // Ways to follow a path.
  enum class Following {
    // openat2 follows links that stay within the root. On a system without it, as kWalk.
    kBeneath,
    // Part by part, without following links.
    kWalk,
  };

  // Opens the folders: absolute paths, at least one; they may be links. InvalidArgument: one is
  // not. NotFound, PermissionDenied, …, as FileError: one cannot be opened.
  static absl::StatusOr<std::shared_ptr<const FileRoots>> Create(
      const std::vector<std::string>& folders, Following following = Following::kBeneath);
  ~FileRoots();

  FileRoots(const FileRoots&) = delete;
  FileRoots& operator=(const FileRoots&) = delete;

  // Opens a path like open(2), with O_CLOEXEC; the caller closes the descriptor. PermissionDenied:
  // the path lies outside of the roots, or leads out of them. Other errors as FileError.
  absl::StatusOr<int> Open(const std::string& path, int flags) const;

  // Checks that what the path names lies within the roots or, if nothing is there, the nearest
  // folder above it that is. Errors as Open.
  absl::Status Check(const std::string& path) const;

  // The folders as given.
  const std::vector<std::string>& folders() const { return folders_; }

 private:
  struct Root {
    // Normal: without a slash at its end, "." and doubled slashes.
    std::string path;
    int descriptor = -1;
  };

  FileRoots(std::vector<std::string> folders, Following following);

  // A path's root, by its descriptor, and the rest, which may be ".".
  struct Place {
    int root = -1;
    std::string rest;
  };
  absl::StatusOr<Place> Find(const std::string& path) const;
  // Returns a descriptor, or an error number below 0.
  int OpenBeneath(const Place& place, int flags) const;
  absl::Status Outside(const std::string& path) const;

  const std::vector<std::string> folders_;
  const Following following_;
  // Const after Create.
  std::vector<Root> roots_;
};

// Confines this process for good: from here on OpenRegularFile, and all that reads data, tokenizers
// and weights by it, opens nothing outside of these folders. Called at most once, by main, before
// others' files are opened. The confinement is the process's, as chroot is, since each of the many
// readers would have to be told otherwise.
void ConfineData(std::shared_ptr<const FileRoots> roots);
// Returns the process's roots; null: it is not confined.
std::shared_ptr<const FileRoots> DataRoots();
// Calls FileRoots::Check of the process's roots; OK if it has none.
absl::Status CheckWithinDataRoots(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FILE_ROOTS_H_
