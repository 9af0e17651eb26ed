#ifndef MUSTER_SERVER_SHARD_STORAGE_LOG_FILE_H_
#define MUSTER_SERVER_SHARD_STORAGE_LOG_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// An open file of a log. Errors name the path: ResourceExhausted when space ran out, otherwise
// Unavailable. Not thread-safe.
class LogFile {
 public:
  // Unit of WriteBlocks: a multiple of any disk's sector, and a page.
  static constexpr size_t kBlockBytes = 4096;

  virtual ~LogFile() = default;

  // Reads `out.size()` bytes from `offset` on, fewer only at the file's end. Returns how many.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<std::byte> out) = 0;

  // Writes the spans one after another from `offset` on. Returns how many bytes were written: at
  // least one, possibly fewer than asked (the caller goes on with the rest). After an error any
  // part may have been written.
  virtual absl::StatusOr<size_t> Write(uint64_t offset,
                                       absl::Span<const absl::Span<const std::byte>> pieces) = 0;

  // Writes whole blocks, past the system's cache where the file system can: what is written once
  // and read only after a crash is not worth a copy. `offset`, and each span's address and length,
  // are multiples of kBlockBytes. Errors as Write.
  virtual absl::Status WriteBlocks(uint64_t offset,
                                   absl::Span<const absl::Span<const std::byte>> blocks) = 0;

  // Returns whether the file keeps the space that Allocate gave when it is written again. A write
  // there never finds the disk full, so a log may hold writes back until they are to be flushed.
  virtual bool keeps_space() const = 0;

  // Sets the file's size to `bytes`, and gives it so much disk space.
  virtual absl::Status Allocate(uint64_t bytes) = 0;

  // Makes all writes so far durable, with as much metadata as is needed to read them back.
  virtual absl::Status Sync() = 0;

  virtual absl::StatusOr<uint64_t> Size() = 0;
};

// The few file operations that a log needs, as an interface so that tests can make them fail.
// Changes of names are durable after SyncDirectory. Thread-safe.
class LogFileSystem {
 public:
  enum class Mode { kOpen, kCreate };

  virtual ~LogFileSystem() = default;

  // Returns the machine's file system: stateless, lives as long as the process.
  static LogFileSystem& Posix();

  // Opens the file of `fd` once more, for writes past the system's cache. Returns -1 with errno set
  // on failure. With EINVAL or EOPNOTSUPP the file is written through the cache; with any other
  // errno it is not opened at all, since all files of a log must be of one kind.
  using OpenDirect = std::function<int(int fd, const std::string& path)>;
  // Returns the machine's file system with another way to open files so; for tests.
  static std::unique_ptr<LogFileSystem> PosixWith(OpenDirect open_direct);

  // Opens a file. kOpen: NotFound when it is missing. kCreate: empties an existing file.
  virtual absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Mode mode) = 0;
  // Returns the names in a directory, in any order. NotFound when it is missing.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
  // Makes a directory. OK when it exists already.
  virtual absl::Status CreateDirectory(const std::string& directory) = 0;
  // Removes a file or an empty directory. NotFound when it is missing.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Renames a file, which replaces `to` when that exists.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_LOG_FILE_H_
