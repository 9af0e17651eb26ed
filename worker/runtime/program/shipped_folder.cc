#include "worker/runtime/program/shipped_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/file_error.h"
#include "common/program/folder_archive.h"
#include "common/program/shipped_archives.h"
#include "common/text/printable.h"

namespace muster {
namespace {

// In the base, JOB.NAME is an unpacked folder, JOB.NAME.new one that is being unpacked, and
// JOB.NAME.held the file whose lock its tasks hold. Whoever changes names there, or takes such a
// lock, holds the lock of this file.
constexpr absl::string_view kBaseLock = "lock";
constexpr absl::string_view kHeldEnding = ".held";
constexpr absl::string_view kNewEnding = ".new";

// Times to wait for the base's lock. Whoever has it unpacks or removes a folder, which takes
// seconds, unless the process stands still.
constexpr absl::Duration kTakePatience = absl::Minutes(1);
constexpr absl::Duration kRemovePatience = absl::Seconds(10);
constexpr absl::Duration kLockLook = absl::Milliseconds(20);

// Opens a file, which is made if need be, and takes its lock (LOCK_SH or LOCK_EX). Unavailable:
// another has the lock, and keeps it for longer than `patience`.
absl::StatusOr<Descriptor> LockFile(const std::string& path, int how, absl::Duration patience) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return FileError("open", path, errno);
  for (absl::Duration waited; flock(file.get(), how | LOCK_NB) != 0; waited += kLockLook) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError("lock", path, errno);
    if (waited >= patience) {
      return absl::UnavailableError(absl::StrCat("another process has kept the lock of ", path,
                                                 " for ", absl::FormatDuration(patience),
                                                 "; it may stand still"));
    }
    absl::SleepFor(kLockLook);
  }
  return file;
}

// Makes the base if need be. Others may make folders in TMPDIR, too, under names that they can
// guess.
absl::Status PrepareBase(const std::string& base) {
  if (mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("make the folder", base, errno);
  }
  struct stat status;
  if (lstat(base.c_str(), &status) != 0) return FileError("inspect", base, errno);
  if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 0077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "shipped folders are unpacked in ", base,
      ", but that is no folder of this user's alone: another user may have made it; remove it, or "
      "start the worker with another TMPDIR"));
}

// Unpacks an archive into an empty folder. What is already there is never opened.
class Unpacker final : public ArchiveSink {
 public:
  explicit Unpacker(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Begin(const ArchiveEntry& entry) override {
    path_ = absl::StrCat(folder_, "/", entry.path);
    if (entry.kind == ArchiveEntry::Kind::kFolder) {
      return mkdir(path_.c_str(), 0777) == 0 ? absl::OkStatus() : Error("make the folder", errno);
    }
    const mode_t mode = entry.kind == ArchiveEntry::Kind::kExecutable ? 0777 : 0666;
    file_ =
        Descriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    return file_.valid() ? absl::OkStatus() : Error("create", errno);
  }

  absl::Status Content(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error("write", errno);
      bytes.remove_prefix(written);
    }
    return absl::OkStatus();
  }

  absl::Status End() override {
    // Some file systems tell only here that the disk is full.
    if (!file_.valid() || close(file_.Release()) == 0) return absl::OkStatus();
    return Error("complete", errno);
  }

 private:
  absl::Status Error(absl::string_view what, int error) const {
    return FileError(what, PrintableLine(path_), error);
  }

  const std::string folder_;
  // The entry that was begun last; a folder has no file.
  std::string path_;
  Descriptor file_;
};

absl::Status Unpack(const ShippedFolder::Options& options, const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const std::string uri,
                          ShippedArchiveUri(options.checkpoint_root, options.name));
  const auto reader = LocalStorage().Open(uri);
  if (absl::IsNotFound(reader.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job's folder was sent with it, but this worker does not find it: ",
        reader.status().message(),
        "; the coordinator's --checkpoint-root has to be a folder that all machines share"));
  }
  MUSTER_RETURN_IF_ERROR(reader.status());
  if (mkdir(folder.c_str(), 0777) != 0) return FileError("make the folder", folder, errno);
  Unpacker unpacker(folder);
  return ReadArchive(**reader, options.name, unpacker);
}

// Returns whether a job's id is safe as a part of a name.
bool IsPlain(absl::string_view job_id) {
  return !job_id.empty() && job_id.front() != '.' &&
         job_id.find_first_of(absl::string_view("/\0", 2)) == absl::string_view::npos;
}

// REQUIRES: the caller holds the base's lock.
void RemoveUnusedLocked(const std::string& base) {
  std::vector<std::string> held_files;
  std::error_code ignored;
  for (std::filesystem::directory_iterator each(base, ignored), end; !ignored && each != end;
       each.increment(ignored)) {
    std::string path = each->path().string();
    if (absl::EndsWith(path, kHeldEnding)) held_files.push_back(std::move(path));
  }
  for (const std::string& file : held_files) {
    if (!LockFile(file, LOCK_EX, absl::ZeroDuration()).ok()) continue;
    const std::string folder(absl::StripSuffix(file, kHeldEnding));
    std::error_code failed;
    std::filesystem::remove_all(absl::StrCat(folder, kNewEnding), failed);
    if (!failed) std::filesystem::remove_all(folder, failed);
    // The file's name goes last: it says that there may be something.
    if (!failed) unlink(file.c_str());
  }
}

}  // namespace

ShippedFolder::ShippedFolder(std::string base, std::string path, Descriptor held)
    : base_(std::move(base)), path_(std::move(path)), held_(std::move(held)) {}

absl::StatusOr<std::unique_ptr<ShippedFolder>> ShippedFolder::Take(const Options& options) {
  if (!IsPlain(options.job_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", PrintableLine(options.job_id), "\" is no id of a job"));
  }
  MUSTER_RETURN_IF_ERROR(ShippedArchiveUri(options.checkpoint_root, options.name).status());
  MUSTER_RETURN_IF_ERROR(PrepareBase(options.base));
  const std::string path = absl::StrCat(options.base, "/", options.job_id, ".", options.name);
  // Ends after the lock, which its destructor takes.
  std::unique_ptr<ShippedFolder> folder;
  MUSTER_ASSIGN_OR_RETURN(
      const Descriptor lock,
      LockFile(absl::StrCat(options.base, "/", kBaseLock), LOCK_EX, kTakePatience));
  RemoveUnusedLocked(options.base);
  MUSTER_ASSIGN_OR_RETURN(Descriptor held,
                          LockFile(absl::StrCat(path, kHeldEnding), LOCK_SH, absl::ZeroDuration()));
  folder.reset(new ShippedFolder(options.base, path, std::move(held)));
  struct stat there;
  if (lstat(path.c_str(), &there) == 0) return folder;
  const std::string unpacked = absl::StrCat(path, kNewEnding);
  MUSTER_RETURN_IF_ERROR(Unpack(options, unpacked));
  if (rename(unpacked.c_str(), path.c_str()) != 0) {
    return FileError("give its name to", unpacked, errno);
  }
  return folder;
}

ShippedFolder::~ShippedFolder() {
  held_.Close();
  RemoveUnusedFolders(base_);
}

std::string ShippedFoldersBase() {
  std::error_code ignored;
  return absl::StrCat(std::filesystem::temp_directory_path(ignored).string(), "/muster-shipped-",
                      geteuid());
}

void RemoveUnusedFolders(const std::string& base) {
  struct stat status;
  // What another user has put there is left alone.
  if (lstat(base.c_str(), &status) != 0 || !PrepareBase(base).ok()) return;
  const auto lock = LockFile(absl::StrCat(base, "/", kBaseLock), LOCK_EX, kRemovePatience);
  if (lock.ok()) RemoveUnusedLocked(base);
}

}  // namespace muster
