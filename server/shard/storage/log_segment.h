#ifndef MUSTER_SERVER_SHARD_STORAGE_LOG_SEGMENT_H_
#define MUSTER_SERVER_SHARD_STORAGE_LOG_SEGMENT_H_

// The segment file of a mutation log: its format, version 1, and how it is read.
//
//   segment  = header record* unused
//   header   = magic[8] "MUSTERLG", u32 format version, u32 bytes of the file / 8, u64 segment id,
//              u64 LSN of its first record, u64 bytes of records in the segment before it, u64 XXH3
//              of these 40 bytes
//   record   = head header zeros payload zeros     (zeros: up to the next multiple of 8 bytes)
//   head     = u32 magic, u32 header bytes, u32 payload bytes, u32 zero, u64 LSN, u64 synced LSN,
//              u64 XXH3 of header and payload, u64 XXH3 of these 40 bytes with the segment id as
//              seed
//
// All integers are little-endian. A file is allocated whole before it becomes a segment, so a file
// that is shorter than its header says has been cut short. (Old files have 0 there: not known.)
// Whatever lies behind the last record does not count: zeros, a record that was half written, or
// older records of a reused file. The latter have another segment id, which is never used twice, so
// that the checksum of their heads fails.
//
// The synced LSN is the highest that was known to be durable when the record was appended. It tells
// two kinds of bad record apart. Records that no Sync covered may be lost in a crash in any order,
// so a bad record followed by a good one is an ordinary torn end. But where the good one's synced
// LSN covers the bad one, the bad one was damaged later.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/shard/storage/log_file.h"

namespace muster {

inline constexpr uint64_t kLogSegmentHeaderBytes = 48;
inline constexpr uint64_t kLogRecordHeadBytes = 48;
inline constexpr uint32_t kLogFormatVersion = 1;

struct LogSegmentHeader {
  uint64_t segment_id = 0;
  uint64_t first_lsn = 0;
  // Bytes of the records in the segment before this one.
  uint64_t previous_bytes = 0;
  // The file has this many bytes or up to 7 more. 0: not known.
  uint64_t file_bytes = 0;
};

struct LogRecordHead {
  uint32_t header_bytes = 0;
  uint32_t payload_bytes = 0;
  uint64_t lsn = 0;
  uint64_t synced_lsn = 0;
  uint64_t checksum = 0;
};

// Returns the bytes that a record takes in a segment.
uint64_t LogRecordBytes(uint64_t header_bytes, uint64_t payload_bytes);
// Returns the number of zeros that follow `bytes` bytes of header or payload.
uint64_t LogPaddingBytes(uint64_t bytes);

void EncodeLogSegmentHeader(const LogSegmentHeader& header,
                            absl::Span<std::byte> out /* kLogSegmentHeaderBytes */);
// Fails with DataLoss or FailedPrecondition (newer format); `path` is for the message.
absl::StatusOr<LogSegmentHeader> DecodeLogSegmentHeader(absl::Span<const std::byte> bytes,
                                                        const std::string& path);

void EncodeLogRecordHead(const LogRecordHead& head, uint64_t segment_id,
                         absl::Span<std::byte> out /* kLogRecordHeadBytes */);
// Returns nothing unless the bytes are the head of a record of this segment.
std::optional<LogRecordHead> DecodeLogRecordHead(absl::Span<const std::byte> bytes,
                                                 uint64_t segment_id);

// Reads records of one segment through a window of the file. Not thread-safe.
class LogSegmentReader {
 public:
  struct Record {
    LogRecordHead head;
    uint64_t offset = 0;
    // Valid until the next call.
    absl::Span<const std::byte> header;
    absl::Span<const std::byte> payload;

    uint64_t end() const { return offset + LogRecordBytes(header.size(), payload.size()); }
  };

  // `file` must outlive the reader.
  LogSegmentReader(LogFile& file, uint64_t segment_id, uint64_t file_bytes)
      : file_(file), segment_id_(segment_id), file_bytes_(file_bytes) {}

  // Returns the record at `offset`, or nothing when there is no undamaged one.
  absl::StatusOr<std::optional<Record>> ReadAt(uint64_t offset);

  // Returns the first undamaged record with LSN > `lsn` at `offset` or behind, or nothing. Reads
  // the rest of the file.
  absl::StatusOr<std::optional<Record>> Search(uint64_t offset, uint64_t lsn);

 private:
  // Makes bytes [offset, offset + bytes) available, fewer at the end of the file, and returns all
  // that are available from `offset` on.
  absl::StatusOr<absl::Span<const std::byte>> Window(uint64_t offset, uint64_t bytes);

  LogFile& file_;
  const uint64_t segment_id_;
  const uint64_t file_bytes_;
  uint64_t window_begin_ = 0;
  size_t window_bytes_ = 0;
  // Storage of the window; u64 for its alignment.
  std::vector<uint64_t> window_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_LOG_SEGMENT_H_
