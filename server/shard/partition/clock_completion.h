#ifndef MUSTER_SERVER_SHARD_PARTITION_CLOCK_COMPLETION_H_
#define MUSTER_SERVER_SHARD_PARTITION_CLOCK_COMPLETION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/admission/admission_checks.h"
#include "server/shard/partition/apply/mutation_applier.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
}  // namespace v1

// Completes the last clock of an ended generation in a partition that lacks closes of it, although
// another partition has them all. A slot closes a clock anywhere only when all its pushes are in
// everywhere, so nothing but closes can be missing. Each missing close is made here, is logged, and
// passes the checks of the slots' own: a replay finds it like any other. Lives for one completion.
class ClockCompletion {
 public:
  struct Parts {
    const PartitionTables& tables;
    AdmissionChecks& checks;
    // Null: nothing is logged.
    PartitionJournal* journal = nullptr;
    MutationApplier& applier;
  };

  // All parts must outlive it.
  explicit ClockCompletion(Parts parts) : parts_(parts) {}

  // Completes clocks up to `clock`, of which at most one is missing. DATA_LOSS: the partition has
  // another clock, or lacks more than closes; nothing has changed. UNAVAILABLE, or an error of the
  // disk that rows are on: try again, but from the partition's files if `torn` is set.
  absl::Status Run(uint64_t clock, bool& torn);

 private:
  // Returns the close that a slot would have sent for its open clock.
  absl::StatusOr<v1::ExchangeRequest> MissingClose(uint32_t slot) const;
  // Closes a slot's clock by a call that has been checked.
  absl::Status Close(AdmittedCall& call, bool& torn);

  const Parts parts_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_CLOCK_COMPLETION_H_
