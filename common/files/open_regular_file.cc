#include "common/files/open_regular_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

// Returns what else a path names; null: a regular file.
const char* KindOfOther(const struct stat& status) {
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
      return nullptr;
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a named pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

// Returns whether the kernel makes up a file's bytes on reading, which may wait or have effects.
bool IsOfKernel(const struct statfs& system) {
  switch (static_cast<unsigned long>(system.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

// Returns what is wrong with an opened file.
absl::Status Check(int descriptor, const std::string& path, struct stat& status) {
  struct statfs system;
  if (fstat(descriptor, &status) != 0 || fstatfs(descriptor, &system) != 0) {
    return FileError("inspect", path, errno);
  }
  const char* other = KindOfOther(status);
  if (other == nullptr && IsOfKernel(system)) other = "a file of the kernel's own";
  if (other == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", other, "; expected a regular file"));
}

}  // namespace

absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path) {
  return OpenRegularFileWithin(DataRoots().get(), path);
}

absl::StatusOr<OpenedFile> OpenRegularFileWithin(const FileRoots* roots, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError("the path of a file is empty; name a regular file");
  }
  // O_NONBLOCK: opening a pipe would wait until somebody writes to it.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  int descriptor = -1;
  if (roots == nullptr) {
    descriptor = ::open(path.c_str(), flags);
    if (descriptor < 0) return FileError("open", path, errno);
  } else {
    MUSTER_ASSIGN_OR_RETURN(descriptor, roots->Open(path, flags));
  }
  struct stat status;
  if (absl::Status wrong = Check(descriptor, path, status); !wrong.ok()) {
    ::close(descriptor);
    return wrong;
  }
  return OpenedFile{.descriptor = descriptor, .size = static_cast<uint64_t>(status.st_size)};
}

}  // namespace muster
