#include "common/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
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
  struct stat replaced;
  const bool there = ::stat(target.c_str(), &replaced) == 0;
  auto file = absl::WrapUnique(new OutputFile(std::move(target), replace));
  MUSTER_RETURN_IF_ERROR(file->Open(there ? replaced.st_mode & kPermissions : 0));
  return file;
}

OutputFile::OutputFile(std::string path, Replace replace)
    : path_(std::move(path)), replace_(replace) {}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(partial_.c_str());
}

absl::Status OutputFile::Open(mode_t mode) {
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    partial_ = absl::StrFormat("%s.%08x.partial", path_, random());
    // Never opens what somebody has put there, nor what a link there leads to.
    file_ =
        ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode == 0 ? 0666 : 0600);
    if (file_ >= 0) break;
    if (errno == ENOENT) {
      return absl::NotFoundError(
          absl::StrCat("cannot write ", path_, ": its folder is not there; make it first"));
    }
    if (errno != EEXIST) return FileError("write", path_, errno);
  }
  if (file_ < 0) return FileError("write", path_, EEXIST);
  // The file that replaces a private one is private, too.
  if (mode != 0 && ::fchmod(file_, mode) != 0) {
    return FileError("set the permissions of", partial_, errno);
  }
  return absl::OkStatus();
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

absl::Status OutputFile::Publish() {
  if (::fsync(file_) != 0) return FileError("flush", path_, errno);
  if (replace_ == Replace::kNever) {
    const int error = PublishFile(partial_, path_);
    if (error == EEXIST) return IsThere(path_);
    if (error != 0) return FileError(absl::StrCat("rename ", partial_, " to"), path_, error);
  } else {
    // Something else may have taken the name while the file was written.
    MUSTER_RETURN_IF_ERROR(OutputTarget(path_, replace_).status());
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      return FileError(absl::StrCat("rename ", partial_, " to"), path_, errno);
    }
  }
  ::close(std::exchange(file_, -1));
  const std::string folder = fs::path(path_).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
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
