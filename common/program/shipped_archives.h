#ifndef MUSTER_COMMON_PROGRAM_SHIPPED_ARCHIVES_H_
#define MUSTER_COMMON_PROGRAM_SHIPPED_ARCHIVES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"
#include "common/program/content_hash.h"

namespace muster {

// Returns where the archive of a shipped folder is: CHECKPOINT_ROOT/shipped/NAME/archive. It has a
// folder of its own, so that what an unfinished write leaves goes with it. InvalidArgument: it is
// no name of a content.
absl::StatusOr<std::string> ShippedArchiveUri(absl::string_view checkpoint_root,
                                              absl::string_view name);

// An archive that is being written. Destruction without Commit leaves no trace. Not thread-safe.
class ShippedArchiveWriter {
 public:
  ShippedArchiveWriter(std::unique_ptr<StorageWriter> file, std::string name, uint64_t bytes);

  // Appends bytes. InvalidArgument: there are more than were announced. Other errors are the
  // storage's.
  absl::Status Append(absl::string_view bytes);

  // Makes the archive durable and visible, unless another writer has made the same one. Call once.
  // InvalidArgument: the bytes are not those of the name. Other errors are the storage's.
  absl::Status Commit();

 private:
  const std::unique_ptr<StorageWriter> file_;
  const std::string name_;
  uint64_t left_;
  ContentHash hash_;
};

// The archives of shipped folders (folder_archive.h) below a checkpoint root, each once, by the
// names of their contents. Calls block. Thread-safe. Errors that are not told are the storage's.
class ShippedArchives {
 public:
  // The storage outlives it.
  ShippedArchives(CheckpointStorage& storage, std::string root);

  // Returns whether there is an archive of this name, without reading it.
  absl::StatusOr<bool> Has(absl::string_view name) const;

  // Returns whether there is an archive of this name and size that has the content of its name. An
  // archive that has not is removed, so that it can be sent again.
  absl::StatusOr<bool> HasSound(absl::string_view name, uint64_t bytes);

  // Begins an archive of this size. AlreadyExists: there is one of this name.
  absl::StatusOr<std::unique_ptr<ShippedArchiveWriter>> Create(const std::string& name,
                                                               uint64_t bytes);

  // Returns the names of all archives, also of those that were begun and never completed.
  absl::StatusOr<std::vector<std::string>> List() const;

  // Removes an archive with all that unfinished writes left of it. OK if there is none.
  absl::Status Remove(absl::string_view name);

 private:
  CheckpointStorage& storage_;
  const std::string root_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PROGRAM_SHIPPED_ARCHIVES_H_
