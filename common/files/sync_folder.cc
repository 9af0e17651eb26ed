#include "common/files/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/files/file_error.h"

namespace muster {

absl::Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error != 0) return FileError("flush", path, error);
  return absl::OkStatus();
}

}  // namespace muster
