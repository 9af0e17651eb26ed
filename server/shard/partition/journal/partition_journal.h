#ifndef MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_JOURNAL_H_
#define MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/payload.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
class PartitionState;
}  // namespace v1

// A partition's files under durability EVERY_PUSH: an image in the store (blocks, rows and state)
// and the log of all mutations since. A record is the request's header as sent, then its payload. A
// record without an operation says that a task came: the slot's earlier incarnations are fenced
// from there on.
//
// Blocks and rows of the image carry the number of the last log record that they include, and the
// state is written after them. A write that is cut short leaves an older state with some newer
// rows, which the replay then skips. Blocks on the disk. Not thread-safe.
class PartitionJournal {
 public:
  using ReplayVisitor = absl::FunctionRef<absl::Status(
      uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> request, Payload payload)>;

  // Opens the log of a partition in `log_directory`. `store` must outlive the journal.
  static absl::StatusOr<std::unique_ptr<PartitionJournal>> Open(
      ParameterStore& store, std::string log_directory, const MutationLog::Options& options);

  // Appends a mutation and returns its log sequence number. Errors as MutationLog::Append; nothing
  // was added then. Where HoldsCopyOf says so, `copy` (if not null) becomes the payload as logged.
  absl::StatusOr<uint64_t> Append(const v1::ExchangeRequest& request, const Payload& payload,
                                  Payload* copy = nullptr);
  bool HoldsCopyOf(size_t payload_bytes) const { return log_->HoldsCopyOf(payload_bytes); }
  // Makes what was appended durable. After a failure the journal is of no more use.
  absl::Status Sync() { return log_->Sync(); }
  // Do the same in two parts, as in MutationLog.
  std::shared_ptr<LogSync> StartSync() { return log_->StartSync(); }
  absl::Status FinishSync() { return log_->FinishSync(); }
  bool sync_started() const { return log_->sync_started(); }

  // Return the numbers of the last mutation appended, and the last durable one; 0 when there is
  // none.
  uint64_t last_lsn() const { return log_->next_lsn() - 1; }
  uint64_t synced_lsn() const { return log_->synced_lsn(); }
  // Returns the log, for those who carry its records elsewhere.
  MutationLog& log() { return *log_; }
  // Return the log's bytes on disk, and those of the mutations that the image does not include.
  uint64_t log_bytes() const { return log_->bytes(); }
  uint64_t bytes_since_image() const { return bytes_since_image_; }

  // The blocks that an image takes: all, or those that changed since the last one. Of rows it takes
  // those that differ from what is stored.
  enum class Extent { kAll, kChanged };

  // Writes blocks and rows, then `state`, and forgets the log up to the state's lsn. Calls
  // `written` once the rows are there but not the state, and stops there when `written` returns
  // false. After an error the image before it and the log are in force, and it may be called again.
  absl::Status WriteImage(PartitionTables& tables, const v1::PartitionState& state, Extent extent,
                          absl::FunctionRef<bool()> written);

  // Fills the tables from the image, whose state has `lsn`; rows of tables that evict stay in the
  // store. Returns the highest number that a block or row includes: `lsn`, or more when rows were
  // evicted since, or a write was cut short.
  absl::StatusOr<uint64_t> ReadImage(uint64_t lsn, PartitionTables& tables);
  // Visits all mutations after `lsn` in order.
  absl::Status Replay(uint64_t lsn, ReplayVisitor visitor);

 private:
  PartitionJournal(ParameterStore& store, std::unique_ptr<MutationLog> log);

  ParameterStore& store_;
  const std::unique_ptr<MutationLog> log_;
  // The last record that the image includes; blocks and rows with a later number are newer.
  uint64_t image_lsn_ = 0;
  uint64_t bytes_since_image_ = 0;
};

// Returns the stored state of a partition; null when there is none. DATA_LOSS: the state cannot be
// read. FAILED_PRECONDITION: its format is newer.
absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadPartitionState(const ParameterStore& store,
                                                                       const std::string& job_id,
                                                                       uint32_t partition);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_JOURNAL_H_
