#ifndef MUSTER_SERVER_SHARD_PARTITION_JOURNAL_JOURNAL_WRITER_H_
#define MUSTER_SERVER_SHARD_PARTITION_JOURNAL_JOURNAL_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/base/payload.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
}  // namespace v1

// Appends to a partition's journal and syncs it. After a failed sync it is unknown what the log
// holds, so the writer closes the partition then. Without a journal nothing is logged, and every
// call succeeds. Blocks on the disk. Not thread-safe.
class JournalWriter {
 public:
  // `journal` may be null: nothing is logged. All must outlive it.
  JournalWriter(PartitionJournal* journal, const PartitionTables& tables, PartitionHealth& health);

  bool logs() const { return journal_ != nullptr; }
  // Returns whether the log keeps a readable copy of a payload of that size.
  bool HoldsCopyOf(size_t payload_bytes) const {
    return journal_ != nullptr && journal_->HoldsCopyOf(payload_bytes);
  }

  // The payload that a logged mutation goes on with: its own, or the log's copy. REQUIRES for
  // kLogged: HoldsCopyOf.
  enum class KeptPayload { kOwn, kLogged };

  // Appends a mutation and notes its record. RESOURCE_EXHAUSTED: the disk is full; nothing was
  // appended. After other errors, too, nothing was.
  absl::Status Append(AdmittedCall& call, KeptPayload kept);
  // Makes a record of the partition's own durable; fills in job, generation and partition.
  // UNAVAILABLE: that failed.
  absl::Status Write(v1::ExchangeRequest record, const Payload& payload);

  // Numbers of the last record appended, and the last durable one; 0 when there is none.
  uint64_t last_lsn() const { return journal_ == nullptr ? 0 : journal_->last_lsn(); }
  uint64_t synced_lsn() const { return journal_ == nullptr ? 0 : journal_->synced_lsn(); }
  bool sync_started() const { return journal_ != nullptr && journal_->sync_started(); }

  // Makes all that was appended durable. False: the engine has crashed.
  bool Sync();
  // The same in two parts, as MutationLog's; for another thread to carry the sync out between them.
  // REQUIRES: logs(). Null: there is nothing to sync.
  std::shared_ptr<LogSync> StartSync() { return journal_->StartSync(); }
  bool FinishSync();

 private:
  // Closes the partition, since the log cannot be written any more.
  void LogFailed(const absl::Status& status);

  PartitionJournal* const journal_;
  const PartitionTables& tables_;
  PartitionHealth& health_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_JOURNAL_JOURNAL_WRITER_H_
