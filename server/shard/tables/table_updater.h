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

// Changes a partition's tables by gradients. Under SSP and ASP every push is one optimizer step on
// what it names. Under BSP the pushes of a clock are summed, and one step over the sums ends the
// clock. A push, a block's sum or a clock without examples changes no value and no number of steps,
// and makes no row: slots with nothing to add take part in the clock, too. A push whose gradients
// are absent has examples, and adds nothing.
//
// Under BSP a block's mean is over the examples of the pushes in its sum, not of the closes, if all
// slots that push it have done so, and have its examples alone (JobTables::has_others_examples; the
// slots that share out experts repeat a clock together). The two differ when a task dies in the
// middle of its pushes and its successor has no finite gradient of the same step (f16): the slot
// then closes with no examples, although some blocks have a gradient of it.
//
// With JobTables::keeps_previous() the values before the last clock's step are kept. A slot that is
// respawned in the middle of its closes repeats a clock which this partition has completed but
// others have not. It must see what it saw before, or its gradients, and with them the run's bits,
// would differ.
//
// Not thread-safe.
class TableUpdater {
 public:
  // Tables and pool must outlive the updater.
  TableUpdater(PartitionTables& tables, BufferPool& pool);

  // Applies an admitted dense or sparse push at `completed` clocks. An error is of the disk that
  // rows are on; nothing was applied then.
  absl::Status Push(const AdmittedCall& call, uint64_t completed);

  // The end of a clock under BSP.
  struct ClockEnd {
    uint64_t clock = 0;
    // Multiplies the means.
    double scale = 1;
    // Multiplies the scheduled learning rate.
    double rate_factor = 1;
    // Sum of the examples that the slots closed the clock with.
    uint64_t examples = 0;
    // True if the clock changes no value and no number of steps.
    bool left_out = false;
    // The record that ends the clock.
    uint64_t lsn = 0;
  };
  // Ends a clock with one step over its sums. Errors as Push.
  absl::Status EndClock(const ClockEnd& end);

  // Returns f64 squared norms of the mean gradient, one per dense block, then one per sparse table,
  // as little-endian bytes. REQUIRES: BSP; all slots have closed the clock.
  std::string SquaredNorms(uint64_t examples);

  // Returns whether no gradient waits for its clock to end.
  bool sums_empty() const { return sums_empty_; }
  // Returns the bytes of sparse gradients that wait.
  size_t memory_bytes() const;

  // Notes that the tables may include records up to this one: what was before it is not known.
  void SetLoadedLsn(uint64_t lsn) { loaded_lsn_ = lsn; }

  // Returns whether the values before a clock's update must be the same after a recovery. Rows that
  // include last_lsn(), the record that ended the last clock, then stay in memory, so that a replay
  // starts from the values before it.
  bool replays_previous() const { return job_.durable() && job_.keeps_previous(); }
  uint64_t last_lsn() const { return last_lsn_; }

  // Returns whether the values before the last EndClock are known.
  bool previous_kept() const { return previous_kept_; }
  // Writes the rows' weights at `completed` clocks. REQUIRES: previous_kept() for kPrevious. An
  // error is of the disk that rows are on.
  absl::Status PullRows(size_t sparse_table, absl::Span<const uint64_t> keys,
                        DenseTable::Version version, uint64_t completed, absl::Span<float> out);

 private:
  // Pushes in a block's sum at the open clock.
  struct Pushed {
    uint64_t examples = 0;
    uint64_t pushes = 0;
  };

  void PushDense(const AdmittedCall& call);
  // Returns the examples of a block's mean; the slots closed the clock with `closed` in all.
  uint64_t ExamplesOf(uint32_t block, uint64_t closed) const;
  absl::Status PushSparse(const AdmittedCall& call, uint64_t completed);
  // Finishes the sums of a closed clock. Idempotent.
  void FinishSums();

  PartitionTables& tables_;
  const JobTables& job_;
  BufferPool& pool_;
  std::vector<Pushed> pushed_;
  // Sums by sparse table; under SSP and ASP empty between pushes.
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
