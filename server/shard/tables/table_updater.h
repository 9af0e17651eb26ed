#ifndef MUSTER_SERVER_SHARD_TABLES_TABLE_UPDATER_H_
#define MUSTER_SERVER_SHARD_TABLES_TABLE_UPDATER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/tables/partition_tables.h"
#include "server/shard/tables/previous_rows.h"
#include "server/shard/tables/sparse_sum.h"

namespace muster {

// How gradients change a partition's tables. Under SSP and ASP every push is one optimizer step on
// what it names. Under BSP pushes of a clock are summed, and one step over the sums ends the clock.
// What stands for no examples (a push, all of a block, or of a clock) changes no value and no
// number of steps, and makes no row: slots take part in a clock so that have nothing to add to it.
//
// Under BSP the mean of a block is over the examples of the pushes in its sum, not of the closes:
// where a task dies in the middle of its pushes and its successor takes the same step back (f16 at
// another loss scale), the slot closes with no examples although some blocks have a gradient of it.
//
// With SummationOrder::kSlot the values before the last clock's step are kept. A slot that was
// respawned in the middle of its closes repeats a clock which this partition has completed but
// others have not; it must see what it saw before, or its gradients, and with them the run's bits,
// would differ.
//
// Not thread-safe.
class TableUpdater {
 public:
  // The tables must outlive it.
  TableUpdater(PartitionTables& tables, BufferPool& pool);

  // Applies a dense or sparse push that was let in, while `completed` clocks are. An error is of
  // the disk that rows are on; nothing was applied then.
  absl::Status Push(const AdmittedCall& call, uint64_t completed);

  // BSP: ends a clock with one step over its sums, whose means are multiplied by `scale`; the slots
  // closed it with `examples` in all. `lsn` is that of the record which ends it. Errors as Push.
  absl::Status EndClock(uint64_t clock, double scale, uint64_t examples, uint64_t lsn);

  // BSP, once all slots have closed the clock: f64 squared norms of the mean gradient, one per
  // dense block, then one per sparse table, as little-endian bytes.
  std::string SquaredNorms(uint64_t examples);

  // Whether no gradient waits for its clock to end.
  bool sums_empty() const { return sums_empty_; }
  // Bytes of sparse gradients that wait.
  size_t memory_bytes() const;

  // Records up to this one may be in the tables already, so that what was before them is not known.
  void SetLoadedLsn(uint64_t lsn) { loaded_lsn_ = lsn; }

  // Whether the values before a clock's update must be the same after a recovery: rows that include
  // last_lsn(), of the record that ended the last clock, then stay in memory, so that a replay
  // starts from what was before it.
  bool replays_previous() const { return job_.durable() && job_.order() == SummationOrder::kSlot; }
  uint64_t last_lsn() const { return last_lsn_; }

  // Whether values before the last EndClock are known.
  bool previous_kept() const { return previous_kept_; }
  // Writes the rows' weights, while `completed` clocks are. REQUIRES: previous_kept() for
  // kPrevious. An error is of the disk that rows are on.
  absl::Status PullRows(size_t sparse_table, absl::Span<const uint64_t> keys,
                        DenseTable::Version version, uint64_t completed, absl::Span<float> out);

 private:
  // Of a block's sum at the open clock.
  struct Pushed {
    uint64_t examples = 0;
    uint32_t slots = 0;
  };

  void PushDense(const AdmittedCall& call);
  // What the mean of a block is over, where the slots closed the clock with `closed` in all.
  uint64_t ExamplesOf(uint32_t block, uint64_t closed) const;
  absl::Status PushSparse(const AdmittedCall& call, uint64_t completed);
  // The clock is closed: sums to the end. Idempotent.
  void FinishSums();

  PartitionTables& tables_;
  const JobTables& job_;
  BufferPool& pool_;
  std::vector<Pushed> pushed_;
  // By sparse table; empty between pushes where each is a step.
  std::vector<SparseSum> sparse_sums_;
  std::vector<PreviousRows> previous_rows_;
  bool sums_empty_ = true;
  bool sums_finished_ = false;
  bool previous_kept_ = false;
  uint64_t loaded_lsn_ = 0;
  uint64_t last_lsn_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_TABLE_UPDATER_H_
