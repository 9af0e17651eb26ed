#ifndef MUSTER_SERVER_SHARD_PARTITION_STORED_STATE_H_
#define MUSTER_SERVER_SHARD_PARTITION_STORED_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/shard/partition/admission/admission_checks.h"
#include "server/shard/partition/answers/cut_history.h"
#include "server/shard/partition/apply/mutation_applier.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// The part of an image beside the values: brings ledger, clocks and cuts into one message and back.
// Not thread-safe.
class StoredState {
 public:
  struct Parts {
    const JobTables& job;
    AdmissionChecks& checks;
    MutationApplier& applier;
    CutHistory& cuts;
  };

  // All parts must outlive it.
  explicit StoredState(Parts parts) : parts_(parts) {}

  // Returns the state that includes all records up to `lsn`.
  v1::PartitionState Save(uint64_t lsn) const;
  // Takes a state over. DATA_LOSS: the state does not fit the partition. REQUIRES: nothing has been
  // executed.
  absl::Status Restore(const v1::PartitionState& state);

  // See Partition::adopted_term.
  uint64_t adopted_term() const { return adopted_term_; }

 private:
  const Parts parts_;
  uint64_t adopted_term_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_STORED_STATE_H_
