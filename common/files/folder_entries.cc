#include "common/files/folder_entries.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/files/parent_folder.h"
#include "common/files/publish_file.h"
#include "common/files/sync_folder.h"

namespace muster {
namespace {

class PosixFolderEntries final : public FolderEntries {
 public:
  absl::Status Make(const std::string& path) override {
    // Another process may be making the same one.
    if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return absl::OkStatus();
    return FileError("create the folder", path, errno);
  }

  absl::Status Publish(const std::string& from, const std::string& to) override {
    const int error = PublishFile(from, to);
    if (error == 0) return absl::OkStatus();
    if (error == EEXIST) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot write ", to, ": there is such a file, and it is not replaced"));
    }
    return FileError("complete", to, error);
  }

  absl::Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return FileError("delete", path, errno);
  }

  absl::Status Sync(const std::string& folder) override { return SyncFolder(folder); }
};

}  // namespace

FolderEntries& FolderEntries::Posix() {
  static PosixFolderEntries* const entries = new PosixFolderEntries();
  return *entries;
}

absl::Status MakeFolders(const std::string& path, FolderEntries& entries) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return absl::OkStatus();
    return FileError("create the folder", path, ENOTDIR);
  }
  if (errno != ENOENT) return FileError("inspect", path, errno);
  const std::string parent = ParentFolder(path);
  MUSTER_RETURN_IF_ERROR(MakeFolders(parent, entries));
  MUSTER_RETURN_IF_ERROR(entries.Make(path));
  return entries.Sync(parent);
}

absl::Status SyncFolders(const std::string& path, FolderEntries& entries) {
  MUSTER_RETURN_IF_ERROR(entries.Sync(path));
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return FileError("inspect", path, errno);
  const dev_t file_system = status.st_dev;
  for (std::string folder = path; folder != "/";) {
    folder = ParentFolder(folder);
    if (::stat(folder.c_str(), &status) != 0) return FileError("inspect", folder, errno);
    if (status.st_dev != file_system) break;
    const absl::Status synced = entries.Sync(folder);
    // A folder that this user may not read was made by none of our processes.
    if (!synced.ok() && !absl::IsPermissionDenied(synced)) return synced;
  }
  return absl::OkStatus();
}

}  // namespace muster
