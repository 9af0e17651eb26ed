#ifndef MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_H_
#define MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "server/shard/storage/log_file.h"
#include "server/shard/storage/log_segment.h"

namespace muster {

// The one ordered log of a partition: a directory of checksummed segment files.
//
// Each record has a log sequence number (LSN); LSNs start at 1 and grow by one. Append hands a
// record to the operating system, Sync makes everything appended so far durable. A caller that
// appends many records and syncs once pays for one disk flush (group commit).
//
// After a crash, Open finds the end of the log: every record that a Sync covered is there, what
// came later is there up to the first damaged record, and the rest is erased. Damage to a record
// that a Sync had covered is DataLoss as far as later records prove it, never a silent end of the
// log. Segments are allocated whole and reused, so that in steady state Sync writes data but no
// file-system metadata. server/shard/storage/log_segment.h has the format.
//
// Not thread-safe: one caller at a time. Logs of different directories are independent. Blocks on
// the disk.
class MutationLog {
 public:
  struct Options {
    // Size of a segment file. Larger: fewer files and flushes at their ends; smaller: space is
    // freed in finer steps. A record that does not fit gets a segment of its own size. At least
    // 4 KiB.
    uint64_t segment_bytes = uint64_t{64} << 20;
    // Freed segments kept for reuse, rather than deleted.
    uint32_t spare_segments = 2;
    // Where the files live; must outlive the log. Null: the machine's file system.
    LogFileSystem* file_system = nullptr;
    // LSN of the first record of a log that is made anew, such as one that goes on from another's.
    uint64_t first_lsn = 1;
  };

  // `header` and `payload` are valid during the call only; `payload` is aligned to 8 bytes.
  using Visitor = std::function<absl::Status(uint64_t lsn, absl::Span<const std::byte> header,
                                             absl::Span<const std::byte> payload)>;

  // Opens the log in `directory`, which is created when it is missing; its parent must exist.
  // DataLoss: a segment is missing or damaged; names file and offset. FailedPrecondition: a segment
  // has a newer format. ResourceExhausted: the disk is full. Unavailable: another error of the file
  // system.
  static absl::StatusOr<std::unique_ptr<MutationLog>> Open(std::string directory, Options options);

  // Deletes the log in `directory` and the directory. OK when there is none. If it is cut short,
  // the next Destroy or Open finishes it: no part of the log comes back.
  static absl::Status Destroy(absl::string_view directory, LogFileSystem* file_system = nullptr);

  MutationLog(const MutationLog&) = delete;
  MutationLog& operator=(const MutationLog&) = delete;

  // Adds a record and returns its LSN. It survives this process from now on, and a crash of the
  // machine once a later Sync succeeded. The payload's pieces are written as they lie, without a
  // copy into one buffer. ResourceExhausted: the disk is full; nothing was added, and the log takes
  // records again once there is space. InvalidArgument: header or payload of 2 GiB or more.
  // Unavailable: another error of the disk; nothing was added. FailedPrecondition: an earlier Sync
  // failed, see there.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::byte> header, const Payload& payload);

  // Makes all appended records durable. After a failure it is unknown which of the records since
  // the last success are on disk (the operating system forgets that it failed), so this object
  // refuses further use: open the log again.
  absl::Status Sync();

  // Calls `visitor` for each record with LSN >= from_lsn in order; 0 stands for the first that is
  // kept. Stops at the visitor's first error and returns it. OutOfRange: records from `from_lsn` on
  // were truncated already. DataLoss: a record is damaged; names file and offset.
  absl::Status Replay(uint64_t from_lsn, const Visitor& visitor);

  // Forgets records with LSN < `lsn`, in whole segments: some of them may stay. Frees their files
  // for reuse.
  absl::Status TruncateBefore(uint64_t lsn);

  // LSN of the next record.
  uint64_t next_lsn() const { return next_lsn_; }
  // LSN of the first record that is kept; next_lsn() when there is none.
  uint64_t first_lsn() const { return segments_.front().first_lsn; }
  // Highest LSN known to be durable; 0 when none is.
  uint64_t synced_lsn() const { return synced_lsn_; }
  // Bytes of the kept records: what Replay reads.
  uint64_t bytes() const;

 private:
  struct Segment {
    uint64_t id = 0;
    uint64_t first_lsn = 0;
    // Size of the file.
    uint64_t capacity = 0;
    // Bytes of records, after the segment's header.
    uint64_t used = 0;
  };

  MutationLog(std::string directory, Options options, LogFileSystem& file_system);

  absl::Status Recover();
  // Reads the headers of the segments with these ids, which must be ascending.
  absl::Status LoadSegments(const std::vector<uint64_t>& ids);
  // Finds the end of the newest segment and erases what a crash left behind it.
  absl::Status RecoverTail();
  // Makes a new active segment with room for a record of `record_bytes`.
  absl::Status AddSegment(uint64_t record_bytes);
  // Frees the first segment's file.
  absl::Status ReleaseFirst();
  // Writes to the active file.
  absl::Status WriteAll(uint64_t offset, std::vector<absl::Span<const std::byte>> pieces);

  std::string SegmentPath(uint64_t id) const;
  std::string SparePath(uint64_t number) const;

  const std::string directory_;
  const Options options_;
  LogFileSystem& file_system_;

  // In order; the last one is written to. Never empty once open.
  std::deque<Segment> segments_;
  // Of the last segment.
  std::unique_ptr<LogFile> active_;
  // Numbers of spare files of `segment_bytes`.
  std::vector<uint64_t> spares_;
  uint64_t next_spare_ = 1;
  uint64_t next_lsn_ = 1;
  uint64_t synced_lsn_ = 0;
  // Set by the failure after which nothing more is accepted.
  absl::Status failed_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_H_
