#ifndef MUSTER_COMMON_CHECKPOINT_MEMORY_STORAGE_H_
#define MUSTER_COMMON_CHECKPOINT_MEMORY_STORAGE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/storage.h"

namespace muster {

// A CheckpointStorage in memory, for tests. Takes the same URIs as LocalStorage. A folder exists
// while a file is in it. Thread-safe; writers and readers may outlive it.
class MemoryStorage final : public CheckpointStorage {
 public:
  MemoryStorage();

  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override;
  absl::StatusOr<bool> Exists(absl::string_view uri) const override;
  absl::Status DeleteRecursively(absl::string_view uri) override;
  absl::Status SyncFolder(absl::string_view uri) override;

 private:
  class Writer;

  struct Files {
    absl::Mutex mutex;
    // Contents by path.
    std::map<std::string, std::shared_ptr<const std::string>> by_path ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Files> files_;
};

// Replaces a file's bytes, as damage would.
absl::Status ReplaceFile(CheckpointStorage& storage, absl::string_view uri,
                         absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_MEMORY_STORAGE_H_
