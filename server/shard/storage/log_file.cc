#include "server/shard/storage/log_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/checkpoint/file_error.h"

namespace muster {
namespace {

class PosixLogFile final : public LogFile {
 public:
  PosixLogFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixLogFile() override { ::close(fd_); }

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
    std::vector<iovec> vectors;
    vectors.reserve(std::min<size_t>(pieces.size(), IOV_MAX));
    for (const absl::Span<const std::byte>& piece : pieces) {
      if (vectors.size() == IOV_MAX) break;
      if (piece.empty()) continue;
      vectors.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    }
    while (true) {
      const ssize_t n = ::pwritev(fd_, vectors.data(), static_cast<int>(vectors.size()), offset);
      if (n > 0) return n;
      // A write of nothing at all would make the caller's loop spin.
      if (n == 0) return FileError("write", path_, ENOSPC);
      if (errno != EINTR) return FileError("write", path_, errno);
    }
  }

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
  const int fd_;
  const std::string path_;
};

class PosixLogFileSystem final : public LogFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Mode mode) override {
    const int flags = O_RDWR | O_CLOEXEC | (mode == Mode::kCreate ? O_CREAT | O_TRUNC : 0);
    const int fd = ::open(path.c_str(), flags, 0644);
    if (fd < 0) return FileError(mode == Mode::kCreate ? "create" : "open", path, errno);
    return std::make_unique<PosixLogFile>(fd, path);
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
    if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
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
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FileError("open", directory, errno);
    const int error = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    if (error != 0) return FileError("flush", directory, error);
    return absl::OkStatus();
  }
};

}  // namespace

LogFileSystem& LogFileSystem::Posix() {
  static PosixLogFileSystem* const file_system = new PosixLogFileSystem;
  return *file_system;
}

}  // namespace muster
