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
// syncs once pays for one disk flush (group commit); one that has the flush carried out by another
// thread (StartSync) appends the next records meanwhile.
//
// Where the file system writes allocated space in place (LogFile::keeps_space), records wait in
// memory for their Sync, which writes them in whole blocks past the system's cache: the only copy
// made of a large payload is then the log's own, which the caller may use in place of another.
// Elsewhere Append writes, and so finds out whether there is space.
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
    // Where memory for records comes from; null: a pool of the log's own.
    std::shared_ptr<BufferPool> memory;
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

  // What a thread is syncing ends first, and a sync that no thread has begun is cancelled: whoever
  // opens the log next has its files alone.
  ~MutationLog();
  MutationLog(const MutationLog&) = delete;
  MutationLog& operator=(const MutationLog&) = delete;

  // Adds a record and returns its LSN. It survives a crash of process or machine once a later Sync
  // succeeded. ResourceExhausted: the disk is full; nothing was added, and the log takes records
  // again once there is space. InvalidArgument: header or payload of 2 GiB or more. Unavailable:
  // another error of the disk; nothing was added. FailedPrecondition: an earlier Sync failed, see
  // there.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::byte> header, const Payload& payload) {
    return Append(header, payload, nullptr);
  }
  // The same; where HoldsCopyOf says so, `copy` becomes the payload as the record has it, which
  // nobody changes any more; elsewhere it stays what it is.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::byte> header, const Payload& payload,
                                  Payload* copy);
  // Whether the log's own copy of a payload with so many bytes may be used in place of another: not
  // that of a small one, which lies among other records and would keep them all in memory.
  bool HoldsCopyOf(size_t payload_bytes) const {
    return stages_ && payload_bytes >= LogStage::kLeastViewBytes;
  }

  // Makes all appended records durable. After a failure it is unknown which of the records since
  // the last success are on disk (the operating system forgets that it failed), so this object
  // refuses further use: open the log again.
  absl::Status Sync();

  // The same in two parts: what StartSync returns may be run by another thread, and FinishSync
  // waits for it, or runs it if nobody has begun to; it also returns the error of one that
  // Append finished at the end of a file. Null: all is durable, or a sync has been
  // started and not finished. What is appended in between is for the next one.
  std::shared_ptr<LogSync> StartSync();
  absl::Status FinishSync();
  bool sync_started() const { return sync_ != nullptr; }

  // Calls `visitor` for each record with LSN >= from_lsn in order; 0 stands for the first that is
  // kept. Where the log holds copies, those that no finished sync covers are left out. Stops at the
  // visitor's first error and returns it. OutOfRange: records from `from_lsn` on were truncated
  // already. DataLoss: a record is damaged; names file and offset.
  absl::Status Replay(uint64_t from_lsn, const Visitor& visitor);

  // Forgets records with LSN < `lsn`, in whole segments: some of them may stay. Frees their files
  // for reuse.
  absl::Status TruncateBefore(uint64_t lsn);

  // Where memory for records comes from.
  BufferPool& memory() const { return *memory_; }
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
  // Notes how a sync ended.
  absl::Status NoteSync(const absl::Status& status, uint64_t lsn);
  // Adds a record at the end of what is to be written.
  void Stage(absl::Span<const std::byte> header, const Payload& payload, Payload* copy);
  // Writes to the active file.
  absl::Status WriteAll(uint64_t offset, std::vector<absl::Span<const std::byte>> spans);

  std::string SegmentPath(uint64_t id) const;
  std::string SparePath(uint64_t number) const;

  const std::string directory_;
  const Options options_;
  LogFileSystem& file_system_;

  // In order; the last one is written to. Never empty once open.
  std::deque<Segment> segments_;
  // Of the last segment; shared with a sync of it.
  std::shared_ptr<LogFile> active_;
  const std::shared_ptr<BufferPool> memory_;
  // Whether the active file takes records with its next sync only.
  bool stages_ = false;
  // What it is to take; null: nothing. Otherwise `tail_` has the bytes of its last block.
  std::unique_ptr<LogStage> stage_;
  std::vector<std::byte> tail_;
  // Started and not finished.
  std::shared_ptr<LogSync> sync_;
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
