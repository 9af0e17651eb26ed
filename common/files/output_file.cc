#include "common/files/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/files/parent_folder.h"
#include "common/files/publish_file.h"
#include "common/files/sync_folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// The number of links that the system follows.
constexpr int kMostLinks = 40;
constexpr int kAttempts = 100;
constexpr mode_t kPermissions = 0777;

absl::Status IsThere(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is there already, and no file is replaced unasked; name another file, or say "
                   "--force to replace it"));
}

// Returns the permissions, which the umask restricts, with which a file is made that will have this
// path: nobody else reads what may replace a private file.
mode_t FirstPermissions(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0 ? 0600 : 0666;
}

// Gives the open file at `from`, which has no name, the name `to`. Returns 0, or an error number;
// EEXIST: the name is taken.
int LinkUnnamed(const std::string& from, const std::string& to) {
  const int failed = ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW);
  return failed == 0 ? 0 : errno;
}

// Has `take` make a file with a name that no other one has, and returns the name. `take` returns 0,
// or an error number; EEXIST: the name is taken.
absl::StatusOr<std::string> TakePartialName(const std::string& path,
                                            absl::FunctionRef<int(const std::string&)> take) {
  std::random_device random;
  int error = EEXIST;
  for (int attempt = 0; attempt < kAttempts && error == EEXIST; ++attempt) {
    const std::string name = absl::StrFormat("%s.%08x.partial", path, random());
    error = take(name);
    if (error == 0) return name;
  }
  if (error != ENOENT) return FileError("write", path, error);
  return absl::NotFoundError(
      absl::StrCat("cannot write ", path, ": its folder is not there; make it first"));
}

}  // namespace

absl::StatusOr<std::string> OutputTarget(const std::string& path, Replace replace) {
  if (path.empty()) return absl::InvalidArgumentError("the file to write has no name; name one");
  fs::path target = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == kMostLinks) return FileError("write", path, ELOOP);
    const fs::path next = fs::read_symlink(target, error);
    if (error) return FileError("read the link", target.string(), error.value());
    // The target is relative to the link's folder, unless it is absolute.
    target = target.parent_path() / next;
  }
  // Looked up by the path itself: what links of /proc/self/fd lead to may have no name, like the
  // pipe of /dev/stdout.
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, fs::is_directory(there) ? " is a folder" : " is no file",
                     ", and a file would take its place; name a file to write"));
  }
  if (fs::exists(there) && replace == Replace::kNever) return IsThere(path);
  return target.string();
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(std::string target, OutputTarget(path, replace));
  const int file = ::open(ParentFolder(target).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC,
                          FirstPermissions(target));
  if (file < 0) return CreateNamed(path, replace);
  auto output = absl::WrapUnique(new OutputFile(std::move(target), replace, file, ""));
  // Without /proc the file could not be given its name.
  if (::access(output->partial().c_str(), F_OK) != 0) return CreateNamed(path, replace);
  MUSTER_RETURN_IF_ERROR(output->TakePermissions());
  return output;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::CreateNamed(const std::string& path,
                                                                    Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(std::string target, OutputTarget(path, replace));
  const mode_t permissions = FirstPermissions(target);
  int file = -1;
  MUSTER_ASSIGN_OR_RETURN(
      std::string partial, TakePartialName(target, [&](const std::string& name) {
        // Never opens what somebody has put there, nor what a link there leads to.
        file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions);
        return file < 0 ? errno : 0;
      }));
  auto output =
      absl::WrapUnique(new OutputFile(std::move(target), replace, file, std::move(partial)));
  MUSTER_RETURN_IF_ERROR(output->TakePermissions());
  return output;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::OpenKept(const std::string& path,
                                                                 Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(std::string target, OutputTarget(path, replace));
  const std::string partial = target + ".partial";
  const int file = ::open(partial.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                          FirstPermissions(target));
  if (file < 0 && errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("cannot write ", path, ": its folder is not there; make it first"));
  }
  if (file < 0) return FileError("write", partial, errno);
  auto output = absl::WrapUnique(new OutputFile(std::move(target), replace, file, partial));
  output->kept_ = true;
  struct stat there;
  if (::fstat(file, &there) != 0) return FileError("inspect", partial, errno);
  if (!S_ISREG(there.st_mode) || there.st_uid != ::geteuid() || there.st_nlink > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(partial, " is there already, and is not this user's file; remove it, or name ",
                     "another file to write"));
  }
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError("lock", partial, errno);
    return absl::FailedPreconditionError(absl::StrCat(
        partial, " is being written by another process; wait for it, or name another file"));
  }
  MUSTER_RETURN_IF_ERROR(output->TakePermissions());
  return output;
}

OutputFile::OutputFile(std::string path, Replace replace, int file, std::string partial)
    : path_(std::move(path)), replace_(replace), file_(file), partial_(std::move(partial)) {}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::close(file_);
  if (!partial_.empty() && !kept_) ::unlink(partial_.c_str());
}

std::string OutputFile::partial() const {
  return partial_.empty() ? absl::StrCat("/proc/self/fd/", file_) : partial_;
}

absl::Status OutputFile::TakePermissions() {
  struct stat replaced;
  if (::stat(path_.c_str(), &replaced) != 0) return absl::OkStatus();
  // The file that replaces a private one is private, too.
  if (::fchmod(file_, replaced.st_mode & kPermissions) == 0) return absl::OkStatus();
  return FileError("set the permissions of", path_, errno);
}

absl::Status OutputFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::WriteAt(int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", path_, errno);
    offset += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> OutputFile::ReadAt(int64_t offset, size_t bytes) const {
  std::string read(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(file_, read.data() + done, bytes - done,
                                static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", partial_, errno);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(partial_, " ends at byte ", offset + static_cast<int64_t>(done)));
    }
    done += static_cast<size_t>(got);
  }
  return read;
}

absl::Status OutputFile::Shorten(uint64_t bytes) {
  struct stat there;
  if (::fstat(file_, &there) != 0) return FileError("inspect", path_, errno);
  if (static_cast<uint64_t>(there.st_size) < bytes) {
    return absl::DataLossError(absl::StrCat(partial_, " has ", there.st_size, " bytes, but ", bytes,
                                            " were written to it"));
  }
  if (::ftruncate(file_, static_cast<off_t>(bytes)) != 0 ||
      ::lseek(file_, static_cast<off_t>(bytes), SEEK_SET) < 0) {
    return FileError("write", path_, errno);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  return ::fsync(file_) == 0 ? absl::OkStatus() : FileError("flush", path_, errno);
}

void OutputFile::Remove() {
  if (file_ >= 0 && !partial_.empty()) ::unlink(partial_.c_str());
}

absl::Status OutputFile::Publish() {
  MUSTER_RETURN_IF_ERROR(Sync());
  const auto link = [this](const std::string& name) { return LinkUnnamed(partial(), name); };
  if (replace_ == Replace::kNever) {
    const int error = partial_.empty() ? link(path_) : PublishFile(partial_, path_);
    if (error == EEXIST) return IsThere(path_);
    if (error != 0) return FileError("write", path_, error);
  } else {
    // Something else may have taken the name while the file was written.
    MUSTER_RETURN_IF_ERROR(OutputTarget(path_, replace_).status());
    // Only a file with a name can take another one's place.
    if (partial_.empty()) {
      MUSTER_ASSIGN_OR_RETURN(partial_, TakePartialName(path_, link));
    }
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      return FileError(absl::StrCat("rename ", partial_, " to"), path_, errno);
    }
  }
  ::close(std::exchange(file_, -1));
  return SyncFolder(ParentFolder(path_));
}

absl::Status CheckOutputFile(const std::string& path, Replace replace) {
  return OutputFile::Create(path, replace).status();
}

absl::Status WriteOutputFile(const std::string& path, Replace replace, absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(path, replace));
  MUSTER_RETURN_IF_ERROR(file->Write(bytes));
  return file->Publish();
}

}  // namespace muster
