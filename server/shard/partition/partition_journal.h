#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_JOURNAL_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_JOURNAL_H_

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

// What a partition keeps on disk under durability EVERY_PUSH: an image in the store (blocks, rows,
// and its state) and the log of all mutations since. A record is the request's header as sent, then
// its payload. One without an operation says that a task came: the slot's earlier incarnations are
// fenced from there on.
//
// Blocks and rows of the image carry the log sequence number they include, and the state is written
// after them: a write-back that is cut short leaves an older state with some newer rows, which the
// replay then skips. Blocks on the disk. Not thread-safe.
class PartitionJournal {
 public:
  using ReplayVisitor = absl::FunctionRef<absl::Status(
      uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> request, Payload payload)>;

  // Opens the log of a partition in `log_directory`. `store` must outlive the journal.
  static absl::StatusOr<std::unique_ptr<PartitionJournal>> Open(
      ParameterStore& store, std::string log_directory, const MutationLog::Options& options);

  // Appends a mutation and returns its log sequence number. Errors as MutationLog's; nothing was
  // added then. Where HoldsCopyOf says so, `copy` (if not null) becomes the payload as logged.
  absl::StatusOr<uint64_t> Append(const v1::ExchangeRequest& request, const Payload& payload,
                                  Payload* copy = nullptr);
  bool HoldsCopyOf(size_t payload_bytes) const { return log_->HoldsCopyOf(payload_bytes); }
  // Makes what was appended durable. After a failure the journal is of no more use.
  absl::Status Sync() { return log_->Sync(); }
  // The same in two parts, as MutationLog's.
  std::shared_ptr<LogSync> StartSync() { return log_->StartSync(); }
  absl::Status FinishSync() { return log_->FinishSync(); }
  bool sync_started() const { return log_->sync_started(); }

  // Of the last mutation appended, and the last durable one; 0 when there is none.
  uint64_t last_lsn() const { return log_->next_lsn() - 1; }
  uint64_t synced_lsn() const { return log_->synced_lsn(); }
  // For who carries the mutations elsewhere.
  MutationLog& log() { return *log_; }
  // Bytes on disk, and of the mutations that the image does not include.
  uint64_t log_bytes() const { return log_->bytes(); }
  uint64_t bytes_since_image() const { return bytes_since_image_; }

  // Which blocks an image takes: all, or those that changed since the last one. Of rows it takes
  // those that differ from what is stored.
  enum class Extent { kAll, kChanged };

  // Writes blocks and rows, then `state`, and forgets the log up to the state's lsn. `written` is
  // called once the rows are there but not the state; when it returns false, it stops there. It may
  // be called again after an error, which leaves the image before it and the log in force.
  absl::Status WriteImage(PartitionTables& tables, const v1::PartitionState& state, Extent extent,
                          absl::FunctionRef<bool()> written);

  // Fills the tables from the image, whose state has `lsn`; rows of tables that evict stay in the
  // store. Returns the highest number that a block
  // or row includes, or `lsn`: above it when rows were evicted since, or a write-back cut short.
  absl::StatusOr<uint64_t> ReadImage(uint64_t lsn, PartitionTables& tables);
  // Visits all mutations after `lsn` in order.
  absl::Status Replay(uint64_t lsn, ReplayVisitor visitor);

 private:
  PartitionJournal(ParameterStore& store, std::unique_ptr<MutationLog> log);

  ParameterStore& store_;
  const std::unique_ptr<MutationLog> log_;
  // What the image includes; blocks and rows with a later number are newer than it.
  uint64_t image_lsn_ = 0;
  uint64_t bytes_since_image_ = 0;
};

// The stored state of a partition; nullptr when there is none. DATA_LOSS: it cannot be read.
// FAILED_PRECONDITION: its format is newer.
absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadPartitionState(const ParameterStore& store,
                                                                       const std::string& job_id,
                                                                       uint32_t partition);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_JOURNAL_H_
