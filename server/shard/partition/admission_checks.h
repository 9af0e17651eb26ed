#ifndef MUSTER_SERVER_SHARD_PARTITION_ADMISSION_CHECKS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ADMISSION_CHECKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/ledger.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
class PartitionState;
}  // namespace v1

// The door of a partition: decides of each operation, in order, whether it is right as a whole,
// whether it is in already, and whether its time has come. Runs ahead of the tables (what it lets
// in is logged, then applied), so it has counts of its own. Never changes a table. Not thread-safe.
class AdmissionChecks {
 public:
  // The tables, the pool and the memory share must outlive it. All slots have closed `start`
  // clocks.
  AdmissionChecks(const PartitionTables& tables, BufferPool& pool, MemoryShare& memory,
                  uint64_t start);

  // Whether the operation changes the partition, so that it is logged.
  static bool IsMutation(const v1::ExchangeRequest& request);

  // Checks an operation, of which only `call` is set, and sets what is found about it. The errors
  // are those of the rpc Exchange; messages name operation, partition and job. Only notes the
  // slot's incarnation; a mutation that is to be carried out is noted by Enter.
  void Check(AdmittedCall& call);

  // Notes a slot's incarnation. REQUIRES: the slot exists. Errors as Ledger::Enter.
  absl::Status EnterIncarnation(uint32_t slot, uint64_t incarnation) {
    return ledger_.Enter(slot, incarnation);
  }

  // Enters a mutation, which Check has just let in, in the ledger.
  void Enter(const AdmittedCall& call);

  const Ledger& ledger() const { return ledger_; }

  void Save(v1::PartitionState& state) const { ledger_.Save(state); }
  absl::Status Restore(const v1::PartitionState& state);

 private:
  // Clocks whose update has been let in.
  uint64_t completed() const;

  absl::Status CheckOperation(AdmittedCall& call);
  absl::Status CheckDensePush(AdmittedCall& call);
  absl::Status CheckSparsePush(AdmittedCall& call);
  absl::Status CheckClose(AdmittedCall& call);
  absl::Status CheckSparsePull(AdmittedCall& call);
  absl::Status CheckClip(AdmittedCall& call);

  absl::Status CheckCut(AdmittedCall& call) const;
  absl::Status CheckBlocks(uint32_t first, uint32_t count) const;
  absl::Status CheckSparseTable(uint32_t table) const;
  // Whether all keys belong to this partition.
  absl::Status CheckKeys(const SparseChunk& chunk) const;
  // Whether a step at `clock` may change parameters yet.
  absl::Status CheckPushBound(uint64_t clock) const;
  // Whether what the operation waits for can come without the slot itself going on.
  absl::Status CheckReachable(const v1::ExchangeRequest& request, uint64_t required) const;

  const PartitionTables& tables_;
  const JobTables& job_;
  BufferPool& pool_;
  MemoryShare& memory_;
  Ledger ledger_;
  // Clocks whose scale of global-norm clipping is in.
  uint64_t scaled_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ADMISSION_CHECKS_H_
