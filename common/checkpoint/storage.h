#ifndef MUSTER_COMMON_CHECKPOINT_STORAGE_H_
#define MUSTER_COMMON_CHECKPOINT_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// A file that is being written. It is visible after Commit only; destruction without Commit leaves
// no trace. Not thread-safe.
class StorageWriter {
 public:
  virtual ~StorageWriter() = default;

  // Appends bytes. ResourceExhausted: no space. FailedPrecondition: after Commit.
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;

  // Makes the file durable and visible. Call once. AlreadyExists: a file of the same name was made
  // since Create, and stays as it is. Any other error leaves nothing under the name.
  virtual absl::Status Commit() = 0;
};

// A file open for reading, with its contents at the time of opening. Thread-safe.
class StorageReader {
 public:
  virtual ~StorageReader() = default;

  virtual uint64_t size() const = 0;

  // Fills `out` with the bytes from `offset` on. OutOfRange: the file ends before.
  virtual absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const = 0;
};

// Storage of checkpoints, by URI: file:///absolute/path, or the plain absolute path. Thread-safe;
// calls block.
//
// Errors of every call: InvalidArgument for a URI that is relative or has another scheme (names the
// known ones), NotFound where a file or folder must exist, ResourceExhausted when space ran out,
// PermissionDenied, Unavailable for others. All name the URI.
class CheckpointStorage {
 public:
  virtual ~CheckpointStorage() = default;

  // Starts a file and makes its folders as needed. AlreadyExists: there is a file of this name. A
  // file is never replaced: delete it first.
  virtual absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) = 0;

  virtual absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const = 0;

  // Returns the names in a folder, sorted, without files still being written. NotFound when there
  // is no such folder.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const = 0;

  // Returns whether there is a file or folder of this name.
  virtual absl::StatusOr<bool> Exists(absl::string_view uri) const = 0;

  // Deletes a file, or a folder with all in it, durably. OK when there is none. InvalidArgument:
  // the root of the storage.
  virtual absl::Status DeleteRecursively(absl::string_view uri) = 0;

  // Makes a folder and its list of files durable, whoever made them: a process that crashed may not
  // have. NotFound when there is no such folder.
  virtual absl::Status SyncFolder(absl::string_view uri) = 0;
};

// Writes a whole file.
absl::Status WriteFile(CheckpointStorage& storage, absl::string_view uri, absl::string_view bytes);

// Reads a whole file.
absl::StatusOr<std::string> ReadFile(const CheckpointStorage& storage, absl::string_view uri);

// Checks that this process can keep checkpoints in a folder: writes, reads back and deletes a small
// file there. Many processes may probe one folder at once.
absl::Status ProbeStorage(CheckpointStorage& storage, absl::string_view folder_uri);

// Returns `folder` and `name` with one slash between them.
std::string JoinUri(absl::string_view folder, absl::string_view name);

// Returns the absolute path of a URI of the local scheme, without "." and doubled slashes.
// InvalidArgument as above, and for a path with "..".
absl::StatusOr<std::string> LocalPath(absl::string_view uri);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_STORAGE_H_
