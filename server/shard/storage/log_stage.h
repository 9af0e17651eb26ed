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

// The bytes at the end of a log's file that are to be written next, gathered in whole blocks: the
// disk takes them from here, without the system's cache between. They are at the same time the
// private copy of what came through memory that others can change.
//
// Memory comes from a pool, and lasts as long as a view of it. Not thread-safe.
class LogStage {
 public:
  // Of memory taken at a time, unless one record needs more.
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  // What a view should have at least, so that no view keeps more than twice its bytes in memory.
  static constexpr size_t kLeastViewBytes = kBufferBytes / 2;

  // The file has `end` bytes so far; `tail` are those of its last block, if that is not full. The
  // pool must outlive the stage.
  LogStage(BufferPool& pool, uint64_t end, absl::Span<const std::byte> tail);

  // Offset in the file behind what is staged.
  uint64_t end() const { return buffers_.back().begin + buffers_.back().used; }

  // What is appended next, up to so many bytes, will lie in one span.
  void Reserve(size_t bytes);
  // REQUIRES: room was reserved.
  void Append(absl::Span<const std::byte> bytes);
  // The same, and adds to `checksum` what was copied, not what may lie in `bytes` by then.
  void Append(absl::Span<const std::byte> bytes, FingerprintStream& checksum);
  // Writes over bytes that were appended since room was reserved last.
  void Overwrite(uint64_t offset, absl::Span<const std::byte> bytes);

  // Bytes that were appended since room was reserved last, shared: they stay what they are,
  // whatever becomes of the stage, if they are not overwritten.
  Payload View(uint64_t offset, size_t bytes) const;
  // The bytes of the last block, if that is not full.
  std::vector<std::byte> Tail() const;

  // Writes all blocks, the last one with zeros up to its end. Nothing may be appended any more.
  absl::Status WriteTo(LogFile& file);

 private:
  struct Buffer {
    // On a block's border.
    std::shared_ptr<std::byte> memory;
    size_t capacity = 0;
    // Where it belongs in the file, a block's border too. All buffers but the last have whole
    // blocks.
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
