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
  // What WriteBlocks takes: a multiple of any disk's sector, and a page.
  static constexpr size_t kBlockBytes = 4096;

  virtual ~LogFile() = default;

  // Reads up to `out.size()` bytes from `offset` on; fewer only at the end of the file. Returns how
  // many.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<std::byte> out) = 0;

  // Writes the pieces one after another from `offset` on. Returns how many bytes were written: at
  // least one, possibly fewer than asked (the caller goes on with the rest). After an error any
  // part may have been written.
  virtual absl::StatusOr<size_t> Write(uint64_t offset,
                                       absl::Span<const absl::Span<const std::byte>> pieces) = 0;

  // Writes whole blocks, past the system's cache where the file system can: what is written once
  // and read after a crash only is not worth a copy. `offset`, and each piece's memory and length,
  // are multiples of kBlockBytes. Errors as Write.
  virtual absl::Status WriteBlocks(uint64_t offset,
                                   absl::Span<const absl::Span<const std::byte>> blocks) = 0;

  // Whether space that Allocate gave is kept when it is written again, so that a write to it never
  // finds the disk full: then a log may hold writes back until they are to be flushed.
  virtual bool keeps_space() const = 0;

  // Gives the file `bytes` bytes of disk space and that size.
  virtual absl::Status Allocate(uint64_t bytes) = 0;

  // Makes all writes so far durable, with as much metadata as is needed to read them back.
  virtual absl::Status Sync() = 0;

  virtual absl::StatusOr<uint64_t> Size() = 0;
};

// The few file operations that a log needs, so that tests can make them fail. Changes of names are
// durable after SyncDirectory. Thread-safe.
class LogFileSystem {
 public:
  enum class Mode { kOpen, kCreate };

  virtual ~LogFileSystem() = default;

  // The machine's file system: stateless, lives as long as the process.
  static LogFileSystem& Posix();

  // Opens the file of `fd` to be written past the system's cache. -1, with errno set: EINVAL or
  // EOPNOTSUPP where that cannot be done with such files, so that the cache has to do; otherwise
  // the file cannot be opened at all, since all files of a log have to be of one kind.
  using OpenDirect = std::function<int(int fd, const std::string& path)>;
  // For tests: the same with another way to do that.
  static std::unique_ptr<LogFileSystem> PosixWith(OpenDirect open_direct);

  // kOpen: NotFound when it is missing. kCreate: empties an existing file.
  virtual absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Mode mode) = 0;
  // Names in a directory, in any order. NotFound when it is missing.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
  // OK when it exists already.
  virtual absl::Status CreateDirectory(const std::string& directory) = 0;
  // Of a file or an empty directory. NotFound when it is missing.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Replaces `to` when it exists.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_LOG_FILE_H_
