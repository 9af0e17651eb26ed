#ifndef MUSTER_SERVER_SHARD_TABLES_TIERED_TABLE_H_
#define MUSTER_SERVER_SHARD_TABLES_TIERED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/optim/optimizer.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/row_memory.h"
#include "common/tables/sparse_table.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/row_policy.h"

namespace muster {

// One partition's rows of a sparse table in two tiers: in memory and, once evicted, in the store. A
// row in memory is newer than what is stored of it, or equal. Which tier a row is in changes none
// of its bits: weights, state, steps, last use and log sequence number are one stored value
// (StoredRecord).
//
// A push first brings its rows to memory: Fetch reads all keys that memory misses with one sorted
// MultiGet, and only what it returns can be updated. So nothing is applied when the disk fails, and
// no key ever has two rows. Pulls bring rows to memory, too, since a push follows. Copies on disk
// stay when rows are read; a row that has not changed since is evicted without a write.
//
// Evict frees memory in batches by second chance: a hand goes around, takes rows that have not been
// used since it last came by, and writes those that changed in order of key.
//
// A RowPolicy may count a key before it gives the key a row. Counts are records without values in
// the same tiers under the same keys; a row takes the place of its count.
//
// When a log is replayed, stored rows may be newer than its records: a record that a row includes,
// by its log sequence number, is left out. The store may also lack a row that earlier records
// pushed. The replay makes the row again, with fewer updates, and the row expires with the same
// clock.
//
// Not thread-safe. Methods that return a status may block on the disk; errors are the store's.
class TieredTable {
 public:
  struct Options {
    RowPolicy policy;
    // Null: nothing is stored and nothing evicted.
    ParameterStore* store = nullptr;
    // kScratch: what is stored is of use to this object alone. Otherwise every batch carries what
    // Recover needs.
    ParameterStore::Durability durability = ParameterStore::Durability::kScratch;
    std::string job;
    // Number of the table, from 1.
    uint32_t table = 1;
    uint32_t partition = 0;
    // True if stored rows may be missing in memory.
    bool evicts = false;
    // True if TakeDropped will be called.
    bool notes_dropped = false;
    // Most keys that are noted for TakeDropped, 8 bytes each.
    size_t most_dropped = size_t{1} << 20;
  };

  // Keys whose rows are in memory or nowhere, until the next call that may use the store.
  class Fetched {
   public:
    absl::Span<const uint64_t> keys() const { return keys_; }

   private:
    friend class TieredTable;
    absl::Span<const uint64_t> keys_;
    uint64_t serial_ = 0;
  };

  struct Count {
    uint64_t key = 0;
    uint32_t clocks = 0;
    uint32_t last_use = 0;
  };

  // Reads nothing from the store; see Clear and Recover. `spec` and `optimizer` must outlive it.
  TieredTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer,
              Options options);
  TieredTable(TieredTable&&) = default;

  uint32_t dim() const { return rows_.dim(); }
  uint32_t width() const { return rows_.width(); }
  const RowPolicy& policy() const { return options_.policy; }
  bool evicts() const { return options_.evicts; }
  // Return the rows in both tiers, and those on disk alone; both with the counts on disk.
  size_t rows() const { return rows_.rows() + rows_on_disk(); }
  size_t rows_on_disk() const { return stored_ - stored_in_memory_; }
  // Return the memory that is taken, and what rows and counts use of it.
  size_t memory_bytes() const { return rows_.memory_bytes() + counts_.memory_bytes(); }
  size_t used_bytes() const {
    return rows_.rows() * rows_.bytes_per_row() + counts_.rows() * counts_.bytes_per_row();
  }
  size_t bytes_per_row() const { return rows_.bytes_per_row(); }

  // Returns the rows in memory. Rows that Load makes there are known to be nowhere else.
  SparseTable& memory() { return rows_; }
  const SparseTable& memory() const { return rows_; }

  // Brings the rows of distinct keys to memory. The keys must outlive the result.
  // RESOURCE_EXHAUSTED: there is no memory to list so many; nothing has changed.
  absl::StatusOr<Fetched> Fetch(absl::Span<const uint64_t> keys);
  // Makes one optimizer step on each row at `clock`, with `completed` clocks completed; as
  // SparseTable::Update, except for keys to which the policy gives no row.
  void Update(const Fetched& fetched, absl::Span<const float> gradients, const OptimizerStep& step,
              SparseTable::Steps steps, uint64_t clock, uint64_t completed, uint64_t lsn);
  // Updates likewise, from gradients by row, wherever each lies.
  void Update(const Fetched& fetched, absl::Span<const float* const> gradients,
              const OptimizerStep& step, SparseTable::Steps steps, uint64_t clock,
              uint64_t completed, uint64_t lsn);
  // Write the weights of fetched keys, or of any keys, which may repeat.
  void Read(const Fetched& fetched, uint64_t completed, absl::Span<float> out) const;
  absl::Status Pull(absl::Span<const uint64_t> keys, uint64_t completed, absl::Span<float> out);

  // Frees `bytes` of used_bytes(), or as much as there is in rows that include only records before
  // `before_lsn`. After an error nothing is lost: what was not written is still in memory.
  absl::Status Evict(uint64_t bytes, uint64_t before_lsn, uint64_t completed);
  // Drops some of the rows and counts that had expired at the clock before the last completed one;
  // a number of calls comes by all of them.
  absl::Status DropExpired(uint64_t completed);

  // Writes all rows and counts in memory that differ from what is stored.
  absl::Status StoreChanged();
  // Deletes what is stored. REQUIRES: nothing is in memory.
  absl::Status Clear();
  // Takes over what is stored, and brings it to memory unless the table evicts. Returns the highest
  // log sequence number in it. REQUIRES: nothing is in memory.
  absl::StatusOr<uint64_t> Recover();

  // Returns what is stored now, for a cut; null when all is in memory. A stored value without
  // floats is a count. A row or count in memory overrides what is stored under its key.
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> SnapshotStored() const;
  // Returns the counts in memory, in ascending order of key.
  std::vector<Count> CountsInMemory() const;
  // Sets the count of a key that has neither row nor count yet.
  void LoadCount(const Count& count);
  // Returns the keys of rows that have gone for good since the last call, and may be in a
  // checkpoint; absent if there were more than are noted.
  absl::optional<std::vector<uint64_t>> TakeDropped();

 private:
  using Row = RowMemory::Row;
  static constexpr uint32_t kMissing = RowMemory::kMissing;

  // Positions of the hands that go around.
  struct Hands {
    uint32_t evict = 0;
    uint32_t expire = 0;
  };

  // Loads the keys whose numbers_ say that memory misses them, and completes numbers_.
  absl::Status LoadMissing(absl::Span<const uint64_t> keys);
  absl::Status LoadStored(uint64_t key, ParameterStore::Value value);
  void Copy(absl::Span<const uint64_t> keys, uint64_t completed, absl::Span<float> out) const;
  // Completes numbers_ with the rows that a push of fetched keys makes.
  void AdmitMissing(const Fetched& fetched, uint64_t clock, uint64_t completed, uint64_t lsn);
  // Returns the number of the row that the push of a clock is applied to, or kMissing. `number` is
  // that of an expired row, or kMissing for a key without a row in memory.
  uint32_t Admit(uint64_t key, uint32_t number, uint64_t clock, uint64_t completed, uint64_t lsn);

  template <typename Memory>
  absl::Status EvictFrom(Memory& memory, uint32_t& hand, uint64_t bytes, uint64_t before_lsn,
                         uint64_t completed);
  template <typename Memory>
  absl::Status DropExpiredFrom(Memory& memory, uint32_t& hand, uint64_t completed);
  template <typename Memory>
  absl::Status StoreChangedOf(Memory& memory);
  absl::Status DropExpiredStored(uint64_t completed);

  // Stores those of the rows that differ, in one batch, and deletes from the store those that have
  // expired at `completed` clocks.
  template <typename Memory>
  absl::Status StoreRows(Memory& memory, absl::Span<const uint32_t> numbers, uint64_t completed);
  // Erases rows from memory, and notes those that have expired as dropped.
  template <typename Memory>
  void EraseRows(Memory& memory, absl::Span<const uint32_t> numbers, uint64_t completed);
  void NoteDropped(uint64_t key);
  absl::Status WriteBatch(StoreBatch& batch, uint64_t stored, uint64_t highest_lsn);
  static bool IsRow(const SparseTable&) { return true; }
  static bool IsRow(const RowMemory&) { return false; }

  const Options options_;
  SparseTable rows_;
  RowMemory counts_;
  // Number of keys that have something stored, and of those among them that are in memory, too.
  uint64_t stored_ = 0;
  uint64_t stored_in_memory_ = 0;
  uint64_t highest_lsn_ = 0;
  Hands row_hands_;
  Hands count_hands_;
  uint64_t expire_stored_from_ = 0;
  // Number of the one Fetched that is valid.
  uint64_t serial_ = 0;
  // Row numbers in memory of the keys in hand.
  std::vector<uint32_t> numbers_;
  std::vector<uint64_t> missing_;
  std::vector<std::byte> encoded_;
  std::vector<uint64_t> dropped_;
  bool too_many_dropped_ = false;
};

// The table that holds, beside the rows, one record per table of a partition, under the table's
// number as key. Recover reads it.
inline constexpr uint32_t kTierTable = 0xffffffff;

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_TIERED_TABLE_H_
