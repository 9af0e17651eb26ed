#ifndef MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_H_
#define MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/admission/admission_checks.h"
#include "server/shard/partition/apply/row_eviction.h"
#include "server/shard/partition/journal/journal_writer.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/resources/served_bytes.h"

namespace muster {

// The door of a partition. Every operation passes here in order: it is checked, appended to the log
// if it is a new mutation, and entered in the ledger. An operation that is refused here has changed
// nothing. Not thread-safe.
class Admission {
 public:
  struct Parts {
    AdmissionChecks& checks;
    JournalWriter& log;
    const RowEviction& rows;
    const PartitionHealth& health;
    BufferPool& pool;
    // Null: nobody counts what is pushed.
    ServedBytes* served = nullptr;
  };

  // All parts must outlive it.
  explicit Admission(Parts parts) : parts_(parts) {}

  // Lets an operation in, of which only `call` is set, or notes why it is refused.
  void Admit(AdmittedCall& admitted);

  // Lets a slot's task in, durably: earlier incarnations are refused from now on. ABORTED: a later
  // incarnation holds the slot. UNAVAILABLE: it cannot be logged. REQUIRES: the slot exists; no
  // admitted call waits for the disk.
  absl::Status EnterTask(uint32_t slot, uint64_t incarnation);

 private:
  // Checks an operation alone. Returns with which payload it goes on if it is logged.
  JournalWriter::KeptPayload Check(AdmittedCall& admitted);

  const Parts parts_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_H_
