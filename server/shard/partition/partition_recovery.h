#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_RECOVERY_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_RECOVERY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/partition/admission/admission_checks.h"
#include "server/shard/partition/answers/cut_history.h"
#include "server/shard/partition/apply/mutation_applier.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/partition/stored_state.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Brings a partition back from its image and its log, answering nobody. Every record passes the
// checks of the living, so that a log which does not follow its own rules is found out. Lives for
// one recovery.
class PartitionRecovery {
 public:
  struct Parts {
    PartitionTables& tables;
    PartitionJournal& journal;
    AdmissionChecks& checks;
    MutationApplier& applier;
    CutHistory& cuts;
    StoredState& state;
    // Null: nobody counts what is replayed.
    ReplayMeter* replays = nullptr;
    // Accounts for the memory that the partition really uses.
    absl::FunctionRef<void()> account;
  };

  // All parts must outlive it.
  explicit PartitionRecovery(Parts parts) : parts_(parts) {}

  // Does Partition::Recover.
  absl::Status Run(const v1::PartitionState& state, absl::FunctionRef<absl::Status()> go_on);

 private:
  // Applies a logged record again.
  absl::Status Replay(uint64_t lsn, ExchangeCall call);
  // Notes that a slot's task entered.
  absl::Status ReplayIncarnation(uint64_t lsn, const v1::ExchangeRequest& record);

  const Parts parts_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_RECOVERY_H_
