#ifndef MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_
#define MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"
#include "common/files/file_roots.h"
#include "common/files/folder_entries.h"

namespace muster {

// Stores files on this machine, or on a file system that is mounted on it. A file is written under
// a temporary name, flushed, published (common/files/publish_file.h), and its folder flushed. The
// process's umask decides who else may read (common/daemon/file_access.h). Immutable, so
// thread-safe.
class LocalStorage final : public CheckpointStorage {
 public:
  // A URI outside `roots` is PermissionDenied; null: any is allowed. `entries` must outlive the
  // storage.
  explicit LocalStorage(std::shared_ptr<const FileRoots> roots = nullptr,
                        FolderEntries& entries = FolderEntries::Posix());

  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override;
  absl::StatusOr<bool> Exists(absl::string_view uri) const override;
  absl::Status DeleteRecursively(absl::string_view uri) override;
  absl::Status SyncFolder(absl::string_view uri) override;

 private:
  // Returns LocalPath, if it is within the roots.
  absl::StatusOr<std::string> PathOf(absl::string_view uri) const;

  const std::shared_ptr<const FileRoots> roots_;
  FolderEntries& entries_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_
