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
  // How a path is followed.
  enum class Following {
    // By openat2: links that stay within the root are followed. Where the system has no openat2,
    // as kWalk.
    kBeneath,
    // Part by part, and no link is followed.
    kWalk,
  };

  // `folders` are absolute paths; at least one. InvalidArgument: one is not. NotFound,
  // PermissionDenied, …, as FileError: one cannot be opened. The folders may be links themselves.
  static absl::StatusOr<std::shared_ptr<const FileRoots>> Create(
      const std::vector<std::string>& folders, Following following = Following::kBeneath);
  ~FileRoots();

  FileRoots(const FileRoots&) = delete;
  FileRoots& operator=(const FileRoots&) = delete;

  // As open(2), with O_CLOEXEC; the caller closes the descriptor. PermissionDenied: the path lies
  // outside of the roots, or leads out of them. Other errors as FileError.
  absl::StatusOr<int> Open(const std::string& path, int flags) const;

  // Whether what the path names lies within the roots, or would: where nothing is there, the
  // nearest folder above it that is. Errors as Open.
  absl::Status Check(const std::string& path) const;

  // As given.
  const std::vector<std::string>& folders() const { return folders_; }

 private:
  struct Root {
    // Normal: without a slash at its end, "." and doubled ones.
    std::string path;
    int descriptor = -1;
  };

  FileRoots(std::vector<std::string> folders, Following following);

  // Where a path lies: the root's descriptor, and the rest, which may be ".".
  struct Place {
    int root = -1;
    std::string rest;
  };
  absl::StatusOr<Place> Find(const std::string& path) const;
  // A descriptor, or an error number below 0.
  int OpenBeneath(const Place& place, int flags) const;
  absl::Status Outside(const std::string& path) const;

  const std::vector<std::string> folders_;
  const Following following_;
  // Const after Create.
  std::vector<Root> roots_;
};

// Confines this process for good: from here on OpenRegularFile, and all that reads data, tokenizers
// and weights by it, opens nothing outside of these folders. To be called at most once, by main,
// before files of others are opened. The readers of data are many, and each of them would have to
// be told, so this is the process's, as chroot is.
void ConfineData(std::shared_ptr<const FileRoots> roots);
// Null: the process is not confined.
std::shared_ptr<const FileRoots> DataRoots();
// FileRoots::Check of the process's roots; OK where it has none.
absl::Status CheckWithinDataRoots(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FILE_ROOTS_H_
