#ifndef MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_CHECKS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_CHECKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/admission/ledger.h"
#include "server/shard/partition/apply/clock_entries.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class ClosingLossScale;
class ExchangeRequest;
class PartitionState;
}  // namespace v1

// Decides for each operation, in order, whether it is right as a whole, whether it is in already,
// and whether its time has come. What it lets in is logged and applied later, so the checks run
// ahead of the tables and have counts of their own, the ledger among them. Never changes a table.
// Not thread-safe.
class AdmissionChecks {
 public:
  // The tables, the pool and the memory share must outlive it. All slots have closed `start`
  // clocks.
  AdmissionChecks(const PartitionTables& tables, BufferPool& pool, MemoryShare& memory,
                  uint64_t start);

  // Returns whether the operation changes the partition, so that it is logged.
  static bool IsMutation(const v1::ExchangeRequest& request);

  // Checks an operation, of which only `call` is set, and sets what is found about it. The errors
  // are those of the rpc Exchange; messages name operation, partition and job. Notes nothing but
  // the slot's incarnation.
  void Check(AdmittedCall& call);

  // Notes a slot's incarnation. REQUIRES: the slot exists. Errors as Ledger::Enter.
  absl::Status EnterIncarnation(uint32_t slot, uint64_t incarnation) {
    return ledger_.Enter(slot, incarnation);
  }

  // Enters a mutation in the ledger. REQUIRES: Check has just let it in.
  void Enter(AdmittedCall& call);

  const Ledger& ledger() const { return ledger_; }

  // Entries are MutationApplier's to save: nothing is on its way to it when a state is saved.
  void Save(v1::PartitionState& state) const { ledger_.Save(state); }
  absl::Status Restore(const v1::PartitionState& state);

 private:
  // Returns how many clocks have their update let in.
  uint64_t completed() const;

  absl::Status CheckOperation(AdmittedCall& call);
  absl::Status CheckDensePush(AdmittedCall& call);
  absl::Status CheckSparsePush(AdmittedCall& call);
  absl::Status CheckClose(AdmittedCall& call);
  absl::Status CheckSparsePull(AdmittedCall& call);
  absl::Status CheckClip(AdmittedCall& call);
  absl::Status CheckEnter(AdmittedCall& call);

  absl::Status CheckCut(AdmittedCall& call) const;
  absl::Status CheckLeftOut(const v1::ExchangeRequest& request) const;
  absl::Status CheckLossScale(const v1::ClosingLossScale& word) const;
  absl::Status CheckBlocks(uint32_t first, uint32_t count) const;
  absl::Status CheckSparseTable(uint32_t table) const;
  // Checks that all keys belong to this partition.
  absl::Status CheckKeys(const SparseChunk& chunk) const;
  // Checks that a step at `clock` may change parameters by now.
  absl::Status CheckPushBound(uint64_t clock) const;
  // Checks that `required` clocks can complete while the slot itself waits for them.
  absl::Status CheckReachable(const v1::ExchangeRequest& request, uint64_t required) const;

  const PartitionTables& tables_;
  const JobTables& job_;
  BufferPool& pool_;
  MemoryShare& memory_;
  Ledger ledger_;
  ClockEntries entries_;
  // Clocks whose scale of global-norm clipping is in.
  uint64_t scaled_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ADMISSION_ADMISSION_CHECKS_H_
