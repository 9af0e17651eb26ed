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
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "server/shard/storage/log_file.h"
#include "server/shard/storage/log_segment.h"
#include "server/shard/storage/log_stage.h"
#include "server/shard/storage/log_sync.h"

namespace muster {

// The one ordered log of a partition: a directory of checksummed segment files.
//
// Each record has a log sequence number (LSN); LSNs start at 1 and grow by one. Append adds a
// record, Sync makes everything appended so far durable. A caller that appends many records and
// syncs once pays for one disk flush (group commit). A caller that has another thread carry out the
// flush (StartSync) appends the next records meanwhile.
//
// Where the file system writes allocated space in place (LogFile::keeps_space), records wait in
// memory for their Sync, which writes them in whole blocks past the system's cache. The log's own
// copy of a large payload is then the only one made: the caller may use it, too. Elsewhere Append
// writes, and so finds out whether there is space.
//
// After a crash, Open finds the end of the log. Every record that a Sync covered is there; later
// records are there up to the first damaged one, and the rest is erased. Damage to a record that a
// Sync had covered is DataLoss as far as later records prove it, never a silent end of the log.
// Segments are allocated whole and reused, so that in steady state Sync writes data but no
// file-system metadata. server/shard/storage/log_segment.h has the format.
//
// For one caller at a time; directories are independent. Blocks on the disk.
class MutationLog {
 public:
  struct Options {
    // Size of a segment file, at least 4 KiB. A larger one means fewer files, and fewer flushes at
    // their ends; a smaller one frees space in finer steps. A record that does not fit gets a
    // segment of its own size.
    uint64_t segment_bytes = uint64_t{64} << 20;
    // Freed segments that are kept for reuse rather than deleted.
    uint32_t spare_segments = 2;
    // File system of the log; must outlive it. Null: the machine's.
    LogFileSystem* file_system = nullptr;
    // Pool for the memory of records. Null: a pool of the log's own.
    std::shared_ptr<BufferPool> memory;
    // LSN of the first record of a new log, such as one that continues another's.
    uint64_t first_lsn = 1;
  };

  // `header` and `payload` are valid during the call only; `payload` is aligned to 8 bytes.
  using Visitor = std::function<absl::Status(uint64_t lsn, absl::Span<const std::byte> header,
                                             absl::Span<const std::byte> payload)>;

  // Opens the log in `directory`, which is created when it is missing; its parent must exist.
  // DataLoss, with file and offset: a segment is missing or damaged. FailedPrecondition: a segment
  // has a newer format. ResourceExhausted: the disk is full. Unavailable: another error of the file
  // system.
  static absl::StatusOr<std::unique_ptr<MutationLog>> Open(std::string directory, Options options);

  // Deletes the log in `directory` and the directory. OK when there is none. If a crash interrupts
  // it, the next Destroy or Open finishes it: no part of the log comes back.
  static absl::Status Destroy(absl::string_view directory, LogFileSystem* file_system = nullptr);

  // Waits for a sync that a thread carries out, and cancels one that no thread has begun: whoever
  // opens the log next has its files alone.
  ~MutationLog();
  MutationLog(const MutationLog&) = delete;
  MutationLog& operator=(const MutationLog&) = delete;

  // Adds a record and returns its LSN. The record survives a crash of process or machine once a
  // later Sync succeeded. After an error nothing was added. ResourceExhausted: the disk is full;
  // the log takes records again once there is space. InvalidArgument: header or payload of 2 GiB or
  // more. Unavailable: another error of the disk. FailedPrecondition: an earlier Sync failed.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::byte> header, const Payload& payload) {
    return Append(header, payload, nullptr);
  }
  // Adds a record likewise. Where HoldsCopyOf says so, `copy` becomes the record's own bytes of the
  // payload, which nobody changes any more; otherwise `copy` stays as it is.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::byte> header, const Payload& payload,
                                  Payload* copy);
  // Returns whether the log's own copy of a payload of so many bytes may be used in place of
  // another copy. False for a small one: it would keep in memory all the records around it.
  bool HoldsCopyOf(size_t payload_bytes) const {
    return stages_ && payload_bytes >= LogStage::kLeastSharedBytes;
  }

  // Makes all appended records durable. After a failure it is unknown which of the records since
  // the last success are on disk (the operating system forgets that it failed), so this object
  // refuses further use: open the log again.
  absl::Status Sync();

  // Begins a Sync that another thread may run while more records are appended; these are for the
  // next sync. Returns null if all is durable, or if a sync is started and not finished. FinishSync
  // waits for the sync, or runs it if no thread has begun to. If Append already finished the sync
  // at the end of a file, FinishSync returns its error.
  std::shared_ptr<LogSync> StartSync();
  absl::Status FinishSync();
  bool sync_started() const { return sync_ != nullptr; }

  // Calls `visitor` for each record with LSN >= from_lsn in order; 0 stands for the first record
  // that is kept. Where records wait in memory, those that no finished sync covers are left out.
  // Returns the visitor's first error, at which it stops. OutOfRange: records from `from_lsn` on
  // were truncated already. DataLoss, with file and offset: a record is damaged.
  absl::Status Replay(uint64_t from_lsn, const Visitor& visitor);

  // Frees segments whose records all have LSN < `lsn`, for reuse. Other records below `lsn` stay.
  absl::Status TruncateBefore(uint64_t lsn);

  // Returns the pool for the memory of records.
  BufferPool& memory() const { return *memory_; }
  // Returns the LSN of the next record.
  uint64_t next_lsn() const { return next_lsn_; }
  // Returns the LSN of the first record that is kept; next_lsn() when there is none.
  uint64_t first_lsn() const { return segments_.front().first_lsn; }
  // Returns the highest LSN known to be durable; 0 when none is.
  uint64_t synced_lsn() const { return synced_lsn_; }
  // Returns the bytes of the kept records: what Replay reads.
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
  // Notes how a sync ended.
  absl::Status NoteSync(const absl::Status& status, uint64_t lsn);
  // Adds a record to what the next sync writes.
  void Stage(absl::Span<const std::byte> header, const Payload& payload, Payload* copy);
  // Writes to the active file.
  absl::Status WriteAll(uint64_t offset, std::vector<absl::Span<const std::byte>> spans);

  std::string SegmentPath(uint64_t id) const;
  std::string SparePath(uint64_t number) const;

  const std::string directory_;
  const Options options_;
  LogFileSystem& file_system_;

  // Ascending; the last one is written to. Never empty once open.
  std::deque<Segment> segments_;
  // File of the last segment; shared with a sync of it.
  std::shared_ptr<LogFile> active_;
  const std::shared_ptr<BufferPool> memory_;
  // True where records reach the active file only with its next sync.
  bool stages_ = false;
  // Bytes for the next sync; null: none, and `tail_` has the bytes of the file's last block.
  std::unique_ptr<LogStage> stage_;
  std::vector<std::byte> tail_;
  // The sync that is started and not finished; null: none.
  std::shared_ptr<LogSync> sync_;
  // Numbers of spare files of `segment_bytes`.
  std::vector<uint64_t> spares_;
  uint64_t next_spare_ = 1;
  uint64_t next_lsn_ = 1;
  uint64_t synced_lsn_ = 0;
  // Failure after which nothing more is accepted.
  absl::Status failed_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_H_
