#ifndef MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_
#define MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

namespace muster {

// Files of this machine, or of a file system that is mounted on it. A file is written under a
// temporary name, flushed, renamed, and its folder flushed. Stateless, so thread-safe.
class LocalStorage final : public CheckpointStorage {
 public:
  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override;
  absl::StatusOr<bool> Exists(absl::string_view uri) const override;
  absl::Status DeleteRecursively(absl::string_view uri) override;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_LOCAL_STORAGE_H_
