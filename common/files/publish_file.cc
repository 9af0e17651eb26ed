#include "common/files/publish_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace muster {
namespace {

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat of_a, of_b;
  return ::lstat(a.c_str(), &of_a) == 0 && ::lstat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

}  // namespace

int PublishFile(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // The answers of a file system, or a kernel, that does not know the flag.
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
    return PublishFileByLink(from, to);
  }
  return errno;
}

int PublishFileByLink(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    // A network file system may repeat a link whose answer was lost, and meet its own link.
    if (error != EEXIST || !IsSameFile(from, to)) return error;
  }
  // A first name that stays is a leftover, like that of a process that was killed.
  ::unlink(from.c_str());
  return 0;
}

}  // namespace muster
