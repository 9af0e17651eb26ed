#include "worker/runtime/program/program_checkpoints.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/files/file_error.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/checkpoint.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;
// Most files of one process; the coordinator's request has room for more.
constexpr size_t kMostFiles = 100'000;

// Returns whether the coordinator has answered that the files are no checkpoint.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsDataLoss(status);
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Makes the file's content durable and read-only, and fills in its length and checksum.
// InvalidArgument: the file has another name, or is written to meanwhile.
absl::Status SyncAndMeasure(const std::string& path, v1::CutFile& file) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closes = [fd] { close(fd); };
  if (fsync(fd) != 0) return FileError("sync", path, errno);
  struct stat before = {}, after = {};
  if (fstat(fd, &before) != 0) return FileError("look at", path, errno);
  if (before.st_nlink > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(PrintableLine(path),
                     " has another name, a hard link, by which it could be changed "
                     "after it is committed; copy it to the checkpoint's folder instead"));
  }
  // A program that goes on from the checkpoint could write to it by accident. Where modes cannot be
  // changed, the checkpoint is as good.
  static_cast<void>(fchmod(fd, before.st_mode & 0555));
  FingerprintStream checksum;
  std::vector<char> buffer(kReadBytes);
  uint64_t bytes = 0;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path, errno);
    if (got == 0) break;
    checksum.Add(buffer.data(), static_cast<size_t>(got));
    bytes += static_cast<uint64_t>(got);
  }
  if (fstat(fd, &after) != 0) return FileError("look at", path, errno);
  if (after.st_size != before.st_size || after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
      after.st_mtim.tv_nsec != before.st_mtim.tv_nsec) {
    return absl::InvalidArgumentError(
        absl::StrCat(PrintableLine(path),
                     " was written to while it was committed; close all "
                     "files before commit_checkpoint"));
  }
  file.set_bytes(bytes);
  file.set_checksum(checksum.Finish());
  return absl::OkStatus();
}

// Returns the relative paths of all files in a folder and those below it, in order.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().lexically_relative(folder).string();
    if (entry->is_directory(error) && !entry->is_symlink(error)) continue;
    if (!entry->is_regular_file(error) || entry->is_symlink(error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint has \"", PrintableLine(name),
                       "\", which is no regular file; only files and folders are kept"));
    }
    if (!IsProgramFileName(name)) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint has a file \"",
                                                     PrintableLine(CutUtf8(name, 200)),
                                                     "\"; names have at most 1024 bytes"));
    }
    if (IsInServedFolder(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint has a file \"", PrintableLine(name),
          "\", where Muster keeps what servers wrote; give the file or its folder another name"));
    }
    names.push_back(std::move(name));
    if (names.size() > kMostFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint has more than ", kMostFiles, " files; pack them together"));
    }
  }
  if (error) return FileError("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ProgramCheckpoints::ProgramCheckpoints(Options options, CoordinatorClient& coordinator)
    : options_(std::move(options)), coordinator_(coordinator) {}

ProgramCheckpoints::~ProgramCheckpoints() { Drop(); }

absl::StatusOr<std::string> ProgramCheckpoints::Begin(uint64_t step) {
  if (step == 0) {
    return absl::InvalidArgumentError("step is 0; a checkpoint is of a step that was made");
  }
  absl::MutexLock lock(&mutex_);
  DropLocked();
  Begun begun;
  begun.step = step;
  begun.checkpoint = CheckpointFolder(options_.root, options_.job_id, step);
  begun.folder =
      JoinUri(begun.checkpoint, NewPartitionFileName(options_.slot, options_.generation));
  std::error_code error;
  fs::create_directories(begun.folder, error);
  if (error) return FileError("make the folder", begun.folder, error.value());
  begun_ = begun;
  return begun.folder;
}

absl::Status ProgramCheckpoints::Commit(uint64_t step, Share share, const ServedCut& served,
                                        const std::stop_token& stop) {
  Begun begun;
  {
    absl::MutexLock lock(&mutex_);
    if (!begun_.has_value() || begun_->step != step) {
      return absl::InvalidArgumentError(
          absl::StrCat("no checkpoint was begun at step ", step,
                       begun_.has_value() ? absl::StrCat(", but one at step ", begun_->step) : "",
                       "; begin_checkpoint gives the folder to write to"));
    }
    begun = *std::exchange(begun_, absl::nullopt);
  }
  v1::CommitCheckpointRequest request;
  request.set_clock(step);
  request.set_program_part(share == Share::kWhole ? v1::CommitCheckpointRequest::WHOLE
                                                  : v1::CommitCheckpointRequest::PART);
  // What the coordinator does not get, or refuses, is of no use.
  absl::Cleanup removes = [&] {
    Remove(begun.folder);
    for (const v1::CutFile& file : request.files()) {
      // The coordinator removes what servers wrote.
      if (!IsInServedFolder(file.name())) Remove(JoinUri(begun.checkpoint, file.path()));
    }
  };
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(begun.folder));
  for (const std::string& name : names) {
    const std::string written = JoinUri(begun.folder, name);
    v1::CutFile file;
    file.set_name(name);
    file.set_path(NewPartitionFileName(options_.slot, options_.generation));
    MUSTER_RETURN_IF_ERROR(SyncAndMeasure(written, file));
    std::error_code error;
    fs::rename(written, JoinUri(begun.checkpoint, file.path()), error);
    if (error) return FileError("rename", written, error.value());
    *request.add_files() = std::move(file);
  }
  request.set_schema(served.schema);
  for (const ServedCut::File& cut : served.files) {
    v1::CutFile& file = *request.add_files();
    file.set_name(ServedFileName(request.files_size() - 1 - static_cast<uint32_t>(names.size())));
    file.set_path(cut.path);
    file.set_bytes(cut.bytes);
    file.set_checksum(cut.checksum);
  }
  const absl::Status committed = coordinator_.CommitCheckpoint(request, stop);
  // After any other error the files may be part of a checkpoint all the same: a call that ends with
  // its program, say, may be the one that all parts had waited for. The coordinator removes them if
  // they are not.
  if (!IsRefusal(committed)) std::move(removes).Cancel();
  Remove(begun.folder);
  return committed;
}

void ProgramCheckpoints::Drop() {
  absl::MutexLock lock(&mutex_);
  DropLocked();
}

void ProgramCheckpoints::DropLocked() {
  if (begun_.has_value()) Remove(begun_->folder);
  begun_.reset();
}

absl::Status ShowCheckpoint(const std::string& checkpoint, const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, LocalPath(checkpoint));
  // A program's files are its own affair, so no roots bound them.
  const LocalStorage storage;
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(storage, checkpoint);
  if (absl::IsNotFound(manifest.status())) return absl::DataLossError(manifest.status().message());
  MUSTER_RETURN_IF_ERROR(manifest.status());
  if (!manifest->program()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint ", checkpoint, " is not one of a program"));
  }
  for (const v1::CheckpointFile& file : manifest->files()) {
    if (IsInServedFolder(file.name())) continue;
    const fs::path link = fs::path(folder) / file.name();
    std::error_code error;
    fs::create_directories(link.parent_path(), error);
    if (!error) fs::create_symlink(fs::path(path) / file.path(), link, error);
    if (error) return FileError("link", link.string(), error.value());
  }
  return absl::OkStatus();
}

}  // namespace muster
