#include "common/checkpoint/local_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/files/open_regular_file.h"
#include "common/files/parent_folder.h"

namespace muster {
namespace {

// Files being written have this in their names, and are not listed.
constexpr absl::string_view kTemporaryPrefix = ".writing-";

bool IsRoot(absl::string_view path) { return path == "/"; }

absl::Status Taken(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(
      "cannot write ", path, ": there is such a file, and files of checkpoints are not replaced"));
}

class LocalWriter final : public StorageWriter {
 public:
  LocalWriter(FolderEntries& entries, int fd, std::string temporary, std::string path)
      : entries_(entries), fd_(fd), temporary_(std::move(temporary)), path_(std::move(path)) {}

  ~LocalWriter() override {
    if (fd_ >= 0) Abandon();
  }

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    if (fd_ < 0) return Closed();
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("write", path_, errno);
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (fd_ < 0) return Closed();
    int error = ::fsync(fd_) == 0 ? 0 : errno;
    if (error == 0 && ::close(std::exchange(fd_, -1)) != 0) error = errno;
    absl::Status status = error == 0 ? absl::OkStatus() : FileError("complete", path_, error);
    if (status.ok()) status = entries_.Publish(temporary_, path_);
    if (!status.ok()) {
      Abandon();
      return status;
    }
    status = entries_.Sync(ParentFolder(path_));
    // A repeat must not meet what nobody was told of.
    if (!status.ok()) entries_.Remove(path_).IgnoreError();
    return status;
  }

 private:
  absl::Status Closed() const {
    return absl::FailedPreconditionError(absl::StrCat("the file ", path_, " was completed before"));
  }

  void Abandon() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    ::unlink(temporary_.c_str());
  }

  FolderEntries& entries_;
  int fd_;
  const std::string temporary_;
  const std::string path_;
};

class LocalReader final : public StorageReader {
 public:
  LocalReader(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}
  ~LocalReader() override { ::close(fd_); }

  uint64_t size() const override { return size_; }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    const uint64_t first = offset;
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::pread(fd_, out.data() + done, out.size() - done, offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("read", path_, errno);
      if (n == 0) {
        return absl::OutOfRangeError(absl::StrCat("cannot read bytes ", first, " to ",
                                                  first + out.size(), " of ", path_,
                                                  ", which ends at ", first + done));
      }
      done += n;
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const uint64_t size_;
  const std::string path_;
};

}  // namespace

LocalStorage::LocalStorage(std::shared_ptr<const FileRoots> roots, FolderEntries& entries)
    : roots_(std::move(roots)), entries_(entries) {}

absl::StatusOr<std::string> LocalStorage::PathOf(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(std::string path, LocalPath(uri));
  if (roots_ != nullptr) MUSTER_RETURN_IF_ERROR(roots_->Check(path));
  return path;
}

absl::StatusOr<std::unique_ptr<StorageWriter>> LocalStorage::Create(absl::string_view uri) {
  static std::atomic<uint64_t> files = 0;
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  if (IsRoot(path)) return FileError("write", path, EISDIR);
  const std::string folder = ParentFolder(path);
  MUSTER_RETURN_IF_ERROR(MakeFolders(folder, entries_));
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    return S_ISDIR(status.st_mode) ? FileError("write", path, EISDIR) : Taken(path);
  }
  // O_EXCL: on a file system shared by machines, process ids may be equal.
  int fd = -1;
  std::string temporary;
  do {
    temporary = JoinUri(folder, absl::StrCat(kTemporaryPrefix, ::getpid(), "-", files.fetch_add(1),
                                             "-", path.substr(path.find_last_of('/') + 1)));
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return FileError("create", temporary, errno);
  return std::make_unique<LocalWriter>(entries_, fd, std::move(temporary), path);
}

absl::StatusOr<std::unique_ptr<StorageReader>> LocalStorage::Open(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  const absl::StatusOr<OpenedFile> file = OpenRegularFileWithin(roots_.get(), path);
  // Nothing else is ever written here: what is under the name has come in the file's place.
  if (absl::IsInvalidArgument(file.status())) return absl::DataLossError(file.status().message());
  MUSTER_RETURN_IF_ERROR(file.status());
  return std::make_unique<LocalReader>(file->descriptor, file->size, path);
}

absl::StatusOr<std::vector<std::string>> LocalStorage::List(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, kTemporaryPrefix)) names.push_back(std::move(name));
  }
  if (error) return FileError("list", path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<bool> LocalStorage::Exists(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return FileError("inspect", path, errno);
}

absl::Status LocalStorage::DeleteRecursively(absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  if (IsRoot(path)) {
    return absl::InvalidArgumentError("the root of the file system is not deleted");
  }
  std::error_code error;
  const uintmax_t deleted = std::filesystem::remove_all(path, error);
  if (error) return FileError("delete", path, error.value());
  return deleted > 0 ? entries_.Sync(ParentFolder(path)) : absl::OkStatus();
}

absl::Status LocalStorage::SyncFolder(absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
  return SyncFolders(path, entries_);
}

}  // namespace muster
