#ifndef MUSTER_SERVER_SHARD_CHECKPOINT_CUT_VIEW_H_
#define MUSTER_SERVER_SHARD_CHECKPOINT_CUT_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"
#include "common/tables/table_checkpoint.h"
#include "common/tables/table_snapshot.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

// A partition's share of a cut, and the file that the view is written to. Taken on the strand,
// then written by one thread at a time. Holds no reference to the tables.
class CutView {
 public:
  // Takes the view of the tables as they are now. Errors are the store's.
  static absl::StatusOr<std::shared_ptr<CutView>> Take(PartitionTables& tables, uint64_t clock);

  uint64_t clock() const { return content_.clock; }
  size_t tables() const { return sparse_.size(); }
  // Makes the file whole, or a delta on the cut at `base`. REQUIRES: the keys dropped since are
  // known.
  void set_base(absl::optional<uint64_t> base) { content_.base = base; }
  // Returns whether the keys of rows that went since the cut before are known, in all tables.
  bool knows_dropped() const;

  // Adds a slot's residual, which its half-precision pushes have yet to carry over: all dense
  // blocks one after another. Does nothing the second time. REQUIRES: before Open.
  void AddResidual(uint32_t slot, std::shared_ptr<const float> values);
  size_t residuals() const { return content_.residuals.size(); }
  // Adds a slot's loss scale. Does nothing the second time. REQUIRES: before Open.
  void AddLossScale(const SlotLossScale& scale);
  size_t loss_scales() const { return content_.loss_scales.size(); }

  // Returns whether a row of a table is written.
  bool Wanted(size_t table, uint64_t steps, uint64_t last_use) const;
  // Returns whether a row that is not written has to be struck from the base: it has expired, but
  // was not dropped yet, so that it is not among the dropped ones.
  bool Struck(size_t table, uint64_t steps, uint64_t last_use) const;
  void Strike(size_t table, uint64_t key) { sparse_[table].dropped->push_back(key); }
  // Returns the keys of the table's rows in memory at the cut, after Open in ascending order.
  std::vector<TableSnapshot::Entry>& entries(size_t table) { return sparse_[table].entries; }

  // Starts the file with all dense pieces.
  absl::Status Open(CheckpointStorage& storage);
  // Returns the buffer for the rows of Append.
  TableSnapshot::Rows& rows() { return rows_; }
  // Writes the rows of entries [begin, end), which rows() holds in their order, and rows on disk
  // between them; after the last entry, all that are left. REQUIRES: tables come in order.
  absl::Status Append(size_t table, size_t begin, size_t end);
  // Makes the file durable.
  absl::StatusOr<PartitionFileInfo> Finish();

 private:
  using Count = TieredTable::Count;

  struct Table {
    RowPolicy policy;
    std::vector<TableSnapshot::Entry> entries;
    // Null if all rows are in memory.
    std::unique_ptr<StoreSnapshot> stored;
    // First key there that was not merged yet; absent: all were.
    absl::optional<uint64_t> next_stored;
    // Counts of keys without a row: those in memory, in ascending order, and those on disk alone.
    std::vector<Count> counts;
    std::vector<Count> stored_counts;
    // Keys of rows that went since the cut before; absent: there were too many.
    absl::optional<std::vector<uint64_t>> dropped;
    // Index of the table's candidates in content_.sparse; -1: it has none.
    int counts_piece = -1;
  };

  CutView() = default;

  absl::Status MergeStored(size_t table, size_t begin, size_t end);
  absl::Status AppendMerged(size_t table);
  absl::Status AppendCounts(const Table& table);

  std::string checkpoint_root_;
  PartitionContent content_;
  // Owners of what content_ borrows.
  std::shared_ptr<const JobTables> job_;
  std::vector<std::shared_ptr<const float>> held_;
  std::vector<Table> sparse_;
  std::unique_ptr<PartitionFileWriter> writer_;
  TableSnapshot::Rows rows_;
  // Rows of both tiers in order.
  TableSnapshot::Rows merged_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CHECKPOINT_CUT_VIEW_H_
