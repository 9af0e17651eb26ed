#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_MUTATION_APPLIER_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_MUTATION_APPLIER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/apply/clock_entries.h"
#include "server/shard/partition/apply/clocks.h"
#include "server/shard/partition/apply/closed_rate_factors.h"
#include "server/shard/partition/apply/group_loss_scale.h"
#include "server/shard/partition/apply/row_eviction.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/resources/executor.h"
#include "server/shard/tables/partition_tables.h"
#include "server/shard/tables/table_updater.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
class PartitionState;
}  // namespace v1

// Applies mutations that have been let in to a partition's tables and clocks. Under BSP pushes are
// summed, and the last slot's close (or the scale of global-norm clipping) runs the optimizer;
// under SSP and ASP every push runs it. What is in the ledger and the log has to get into the
// tables: a mutation that cannot be applied fails the partition. Not thread-safe.
class MutationApplier {
 public:
  // All must outlive it. All slots have closed `start` clocks.
  MutationApplier(PartitionTables& tables, BufferPool& pool, PartitionHealth& health,
                  uint64_t start);

  // Applies a mutation, then makes rows keep within their memory. Not OK: the partition has failed
  // with this error.
  absl::Status Apply(const AdmittedCall& call);
  // The same for a record of the log: an error is returned, and the partition left as it is. A full
  // disk is no error.
  absl::Status Replay(const AdmittedCall& call);

  // Makes dense steps that nobody has asked for, once other partitions have had their turn.
  // `strand` runs tasks between batches; null: makes them now.
  void SettleSoon(const std::shared_ptr<Executor>& strand);

  // Returns the f64 squared norms of clock completed(); none if it is left out. REQUIRES: all slots
  // have closed it.
  const std::string& ClipNorms();
  // Returns those of the clock before, for a repeat.
  const std::string& last_clip_norms() const { return last_norms_; }

  const Clocks& clocks() const { return clocks_; }
  const GroupLossScale& loss_scale() const { return loss_scale_; }
  const ClockEntries& entries() const { return entries_; }
  TableUpdater& updater() { return updater_; }
  RowEviction& rows() { return rows_; }

  // Adds clocks, entries, norms, the loss scale and rate factors to a state. REQUIRES: it has its
  // slots.
  void Save(v1::PartitionState& state) const;
  // Takes all of that from a state.
  void Restore(const v1::PartitionState& state);

 private:
  // An error is of the disk that rows are on.
  absl::Status ApplyToTables(const AdmittedCall& call);
  void CloseSlots(const AdmittedCall& call);
  // Ends the clocks that all slots have closed, unless they wait for their scale.
  absl::Status CompleteClocks(uint64_t lsn);
  // Ends clock completed() under BSP.
  absl::Status EndClock(double scale, uint64_t lsn);

  PartitionTables& tables_;
  const JobTables& job_;
  PartitionHealth& health_;
  TableUpdater updater_;
  Clocks clocks_;
  ClockEntries entries_;
  GroupLossScale loss_scale_;
  ClosedRateFactors rate_factors_;
  RowEviction rows_;
  // Squared norms of clock completed(), once they were asked for, and of the one before.
  std::string norms_;
  std::string last_norms_;
  // True once the strand has been told to settle.
  bool settles_soon_ = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_MUTATION_APPLIER_H_
