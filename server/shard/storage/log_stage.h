#ifndef MUSTER_SERVER_SHARD_STORAGE_LOG_STAGE_H_
#define MUSTER_SERVER_SHARD_STORAGE_LOG_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/fingerprint.h"
#include "common/base/payload.h"
#include "server/shard/storage/log_file.h"

namespace muster {

// The bytes that are to be written next at the end of a log's file, gathered in whole blocks, from
// which the disk takes them without the system's cache. They are also the log's private copy of
// what came through memory that others can change.
//
// Memory comes from a pool, and lives as long as bytes of it are shared. Not thread-safe.
class LogStage {
 public:
  // Bytes of memory taken at a time, unless one record needs more.
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  // Fewest bytes to share, so that what is shared keeps at most twice its bytes in memory.
  static constexpr size_t kLeastSharedBytes = kBufferBytes / 2;

  // Begins at offset `end` of the file; `tail` are the bytes of the file's last block, if that is
  // not full. The pool must outlive the stage.
  LogStage(BufferPool& pool, uint64_t end, absl::Span<const std::byte> tail);

  // Returns the offset in the file behind what is staged.
  uint64_t end() const { return buffers_.back().begin + buffers_.back().used; }

  // Makes room: the next `bytes` bytes that are appended lie one after another in memory.
  void Reserve(size_t bytes);
  // REQUIRES: room was reserved.
  void Append(absl::Span<const std::byte> bytes);
  // Appends likewise, and adds to `checksum` what was copied, not what `bytes` may hold by then.
  void Append(absl::Span<const std::byte> bytes, FingerprintStream& checksum);
  // Writes over bytes that were appended since the last Reserve.
  void Overwrite(uint64_t offset, absl::Span<const std::byte> bytes);

  // Returns bytes that were appended since the last Reserve, without a copy. They do not change
  // after that, whatever becomes of the stage, unless Overwrite changes them.
  Payload SharedBytes(uint64_t offset, size_t bytes) const;
  // Returns the bytes of the last block, if that is not full.
  std::vector<std::byte> Tail() const;

  // Writes all blocks, the last one filled up with zeros. Nothing may be appended afterwards.
  absl::Status WriteTo(LogFile& file);

 private:
  struct Buffer {
    // Aligned to a block.
    std::shared_ptr<std::byte> memory;
    size_t capacity = 0;
    // Offset in the file, a multiple of a block. All buffers but the last have whole blocks.
    uint64_t begin = 0;
    size_t used = 0;
  };

  Buffer NewBuffer(uint64_t begin, size_t bytes);

  BufferPool& pool_;
  // Never empty.
  std::vector<Buffer> buffers_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_LOG_STAGE_H_
