#include "server/shard/storage/log_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/files/file_error.h"
#include "common/files/sync_folder.h"

namespace muster {
namespace {

class PosixLogFile final : public LogFile {
 public:
  // `direct_fd` is the same file, opened for writes past the cache; -1: there are none.
  PosixLogFile(int fd, int direct_fd, std::string path)
      : fd_(fd), direct_fd_(direct_fd), path_(std::move(path)) {}
  ~PosixLogFile() override {
    ::close(fd_);
    if (direct_fd_ >= 0) ::close(direct_fd_);
  }

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::pread(fd_, out.data() + done, out.size() - done, offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("read", path_, errno);
      if (n == 0) break;
      done += n;
    }
    return done;
  }

  absl::StatusOr<size_t> Write(uint64_t offset,
                               absl::Span<const absl::Span<const std::byte>> pieces) override {
    const ssize_t written = WriteTo(fd_, offset, pieces);
    if (written < 0) return FileError("write", path_, errno);
    return written;
  }

  absl::Status WriteBlocks(uint64_t offset,
                           absl::Span<const absl::Span<const std::byte>> blocks) override {
    std::vector<absl::Span<const std::byte>> left(blocks.begin(), blocks.end());
    size_t first = 0;
    while (true) {
      while (first < left.size() && left[first].empty()) ++first;
      if (first == left.size()) return absl::OkStatus();
      const auto pieces = absl::MakeConstSpan(left).subspan(first);
      ssize_t written = -1;
      // A write that ended short may go on in the middle of a block, which only the cache takes.
      if (direct_fd_ >= 0 && offset % kBlockBytes == 0) {
        written = WriteTo(direct_fd_, offset, pieces);
        // The disk's blocks are larger, or the file system says no after all.
        if (written < 0 && errno != EINVAL) return FileError("write", path_, errno);
      }
      if (written < 0) written = WriteTo(fd_, offset, pieces);
      if (written < 0) return FileError("write", path_, errno);
      offset += written;
      for (size_t done = written; done > 0;) {
        const size_t part = std::min(done, left[first].size());
        left[first].remove_prefix(part);
        done -= part;
        if (left[first].empty()) ++first;
      }
    }
  }

  bool keeps_space() const override { return direct_fd_ >= 0; }

  absl::Status Allocate(uint64_t bytes) override {
    while (true) {
      // posix_fallocate, because it falls back to writing where the file system cannot allocate.
      const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
      if (error == 0) return absl::OkStatus();
      if (error != EINTR) return FileError("allocate space for", path_, error);
    }
  }

  absl::Status Sync() override {
    if (::fdatasync(fd_) != 0) return FileError("flush", path_, errno);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override {
    struct stat status;
    if (::fstat(fd_, &status) != 0) return FileError("inspect", path_, errno);
    return static_cast<uint64_t>(status.st_size);
  }

 private:
  // Writes some of the spans. Returns how many bytes, or -1 with errno set when none.
  static ssize_t WriteTo(int fd, uint64_t offset,
                         absl::Span<const absl::Span<const std::byte>> pieces) {
    std::vector<iovec> vectors;
    vectors.reserve(std::min<size_t>(pieces.size(), IOV_MAX));
    for (const absl::Span<const std::byte>& piece : pieces) {
      if (vectors.size() == IOV_MAX) break;
      if (piece.empty()) continue;
      vectors.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    }
    while (true) {
      const ssize_t n = ::pwritev(fd, vectors.data(), static_cast<int>(vectors.size()), offset);
      if (n > 0) return n;
      if (n < 0 && errno == EINTR) continue;
      // A write of nothing at all would make the caller's loop spin.
      if (n == 0) errno = ENOSPC;
      return -1;
    }
  }

  const int fd_;
  const int direct_fd_;
  const std::string path_;
};

// Opens only on file systems that write allocated blocks where they are; others copy them, and may
// find no space for the copy.
int OpenDirectInPlace(int fd, const std::string& path) {
  struct statfs system;
  if (::fstatfs(fd, &system) != 0) return -1;
  if (system.f_type != EXT4_SUPER_MAGIC && system.f_type != XFS_SUPER_MAGIC) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return ::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
}

class PosixLogFileSystem final : public LogFileSystem {
 public:
  explicit PosixLogFileSystem(OpenDirect open_direct) : open_direct_(std::move(open_direct)) {}

  absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Mode mode) override {
    const int flags = O_RDWR | O_CLOEXEC | (mode == Mode::kCreate ? O_CREAT | O_TRUNC : 0);
    const int fd = ::open(path.c_str(), flags, 0666);
    if (fd < 0) return FileError(mode == Mode::kCreate ? "create" : "open", path, errno);
    const int direct_fd = open_direct_(fd, path);
    // All files of a log are of one kind: what holds copies of payloads goes on doing so.
    if (const int error = errno; direct_fd < 0 && error != EINVAL && error != EOPNOTSUPP) {
      ::close(fd);
      return FileError("open", path, error);
    }
    return std::make_unique<PosixLogFile>(fd, direct_fd, path);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return FileError("list", directory, error.value());
    return names;
  }

  absl::Status CreateDirectory(const std::string& directory) override {
    if (::mkdir(directory.c_str(), 0777) == 0 || errno == EEXIST) return absl::OkStatus();
    return FileError("create", directory, errno);
  }

  absl::Status Remove(const std::string& path) override {
    if (std::remove(path.c_str()) != 0) return FileError("delete", path, errno);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return FileError("rename", from, errno);
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& directory) override {
    return SyncFolder(directory);
  }

 private:
  const OpenDirect open_direct_;
};

}  // namespace

LogFileSystem& LogFileSystem::Posix() {
  static PosixLogFileSystem* const file_system = new PosixLogFileSystem(OpenDirectInPlace);
  return *file_system;
}

std::unique_ptr<LogFileSystem> LogFileSystem::PosixWith(OpenDirect open_direct) {
  return std::make_unique<PosixLogFileSystem>(std::move(open_direct));
}

}  // namespace muster
