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

// One partition's rows of a sparse table in two tiers: in memory, and, evicted from there, in the
// store. A row in memory is newer than what is stored of it, or equal. Which tier a row is in
// changes none of its bits: weights, state, steps, last use and log sequence number are one stored
// value, of StoredRecord's form.
//
// What a push touches is in memory first: Fetch reads all of its keys that memory misses with one
// sorted MultiGet, and only what it returns can be updated. So nothing is applied when the disk
// fails, and no key ever has a second row. Pulls bring rows to memory too, since a push follows.
// Copies on disk stay when rows are read; a row that has not changed since is evicted without being
// written.
//
// Evict frees memory in batches by second chance: a hand goes around, takes rows that have not been
// used since it came by last, and writes those that changed in order of key.
//
// Keys that a RowPolicy counts before it gives them a row are records too, without values
// ("counts"): they live in the same tiers under the same keys, where a row takes the place of its
// count.
//
// Stored rows may be newer than a log that is replayed: what they include, by their log sequence
// number, is left out. A row may also be gone from the store that earlier records of the log
// pushed; the replay makes it again, with fewer updates, and it expires with the same clock.
//
// Not thread-safe. Methods that return a status may block on the disk; errors are the store's.
class TieredTable {
 public:
  struct Options {
    RowPolicy policy;
    // Null: nothing is stored, nothing evicted.
    ParameterStore* store = nullptr;
    // kScratch: what is stored is of use to this object alone. Otherwise all batches carry what
    // Recover needs.
    ParameterStore::Durability durability = ParameterStore::Durability::kScratch;
    std::string job;
    // From 1.
    uint32_t table = 1;
    uint32_t partition = 0;
    // Whether rows that are stored may be missing in memory.
    bool evicts = false;
    // Whether TakeDropped will be called.
    bool notes_dropped = false;
    // Keys that are noted for it, 8 bytes each.
    size_t most_dropped = size_t{1} << 20;
  };

  // Keys whose rows are in memory or nowhere, until the table's next Fetch, Pull or Evict.
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

  // `spec` and `optimizer` must outlive the table. Nothing is read from the store: see Clear and
  // Recover.
  TieredTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer,
              Options options);
  TieredTable(TieredTable&&) = default;

  uint32_t dim() const { return rows_.dim(); }
  uint32_t width() const { return rows_.width(); }
  const RowPolicy& policy() const { return options_.policy; }
  bool evicts() const { return options_.evicts; }
  // Rows in both tiers, and those on disk alone (with counts there).
  size_t rows() const { return rows_.rows() + rows_on_disk(); }
  size_t rows_on_disk() const { return stored_ - stored_in_memory_; }
  // Rows and counts that were read from the store, and written to it, so far.
  uint64_t rows_read() const { return rows_read_; }
  uint64_t rows_written() const { return rows_written_; }
  // Memory that is taken, and what of it rows and counts use.
  size_t memory_bytes() const { return rows_.memory_bytes() + counts_.memory_bytes(); }
  size_t used_bytes() const {
    return rows_.rows() * rows_.bytes_per_row() + counts_.rows() * counts_.bytes_per_row();
  }
  size_t bytes_per_row() const { return rows_.bytes_per_row(); }

  // The rows in memory. Rows that Load makes there are known to be nowhere else.
  SparseTable& memory() { return rows_; }
  const SparseTable& memory() const { return rows_; }

  // Brings the rows of distinct keys to memory. The keys must outlive the result.
  // RESOURCE_EXHAUSTED: there is no memory to list so many; nothing has changed.
  absl::StatusOr<Fetched> Fetch(absl::Span<const uint64_t> keys);
  // One optimizer step on each row at `clock`, while `completed` clocks are; as
  // SparseTable::Update, but for keys that the policy gives no row.
  void Update(const Fetched& fetched, absl::Span<const float> gradients, const OptimizerStep& step,
              SparseTable::Steps steps, uint64_t clock, uint64_t completed, uint64_t lsn);
  // The same with gradients by row, wherever each lies.
  void Update(const Fetched& fetched, absl::Span<const float* const> gradients,
              const OptimizerStep& step, SparseTable::Steps steps, uint64_t clock,
              uint64_t completed, uint64_t lsn);
  // Writes the weights of fetched keys, or of any keys, which may repeat.
  void Read(const Fetched& fetched, uint64_t completed, absl::Span<float> out) const;
  absl::Status Pull(absl::Span<const uint64_t> keys, uint64_t completed, absl::Span<float> out);

  // Frees `bytes` of used_bytes(), or as much as there is in rows that include less than
  // `before_lsn`. After an error nothing is lost: what was not written is still in memory.
  absl::Status Evict(uint64_t bytes, uint64_t before_lsn, uint64_t completed);
  // Drops some of the rows and counts that are gone since the clock before the last completed one,
  // or longer; comes by all of them in a number of calls.
  absl::Status DropExpired(uint64_t completed);

  // Writes all rows and counts of memory that differ from what is stored.
  absl::Status StoreChanged();
  // Forgets what is stored. REQUIRES: nothing is in memory.
  absl::Status Clear();
  // Takes over what is stored, which is brought to memory unless the table evicts. Returns the
  // highest log sequence number in it. REQUIRES: nothing is in memory.
  absl::StatusOr<uint64_t> Recover();

  // For cuts: what is stored now; null when all is in memory. A stored value without floats is a
  // count. Where memory has a row or count of the same key, that one holds.
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> SnapshotStored() const;
  // The counts in memory, in ascending order of key.
  std::vector<Count> CountsInMemory() const;
  // The count of a key that has neither row nor count yet.
  void LoadCount(const Count& count);
  // The keys of rows that have gone for good, and may be in a checkpoint, since the last call;
  // absent: there were more than are noted.
  absl::optional<std::vector<uint64_t>> TakeDropped();

 private:
  using Row = RowMemory::Row;
  static constexpr uint32_t kMissing = RowMemory::kMissing;

  // Where the hands that go around have come to.
  struct Hands {
    uint32_t evict = 0;
    uint32_t expire = 0;
  };

  bool tracks_use() const { return options_.evicts; }
  // Loads what numbers_ says memory misses, and completes numbers_.
  absl::Status LoadMissing(absl::Span<const uint64_t> keys);
  absl::Status LoadStored(uint64_t key, ParameterStore::Value value);
  void Copy(absl::Span<const uint64_t> keys, uint64_t completed, absl::Span<float> out) const;
  // Completes numbers_ with the rows that a push of fetched keys makes.
  void AdmitMissing(const Fetched& fetched, uint64_t clock, uint64_t completed, uint64_t lsn);
  // The number of the row that the push of a clock is applied to, or kMissing: of a key that has no
  // row in memory (`number` is kMissing), or an expired one.
  uint32_t Admit(uint64_t key, uint32_t number, uint64_t clock, uint64_t completed, uint64_t lsn);

  template <typename Memory>
  absl::Status EvictFrom(Memory& memory, uint32_t& hand, uint64_t bytes, uint64_t before_lsn,
                         uint64_t completed);
  template <typename Memory>
  absl::Status DropExpiredFrom(Memory& memory, uint32_t& hand, uint64_t completed);
  template <typename Memory>
  absl::Status StoreChangedOf(Memory& memory);
  absl::Status DropExpiredStored(uint64_t completed);

  // Stores those of the rows that differ, in one batch, and erases the ones that `completed` clocks
  // have expired from the store.
  template <typename Memory>
  absl::Status StoreRows(Memory& memory, absl::Span<const uint32_t> numbers, uint64_t completed);
  // Forgets them in memory, and in the count of rows those that expired.
  template <typename Memory>
  void EraseRows(Memory& memory, absl::Span<const uint32_t> numbers, uint64_t completed);
  void NoteDropped(uint64_t key);
  absl::Status WriteBatch(StoreBatch& batch, uint64_t stored, uint64_t highest_lsn);
  static bool IsRow(const SparseTable&) { return true; }
  static bool IsRow(const RowMemory&) { return false; }

  const Options options_;
  SparseTable rows_;
  RowMemory counts_;
  // Keys that have something stored, and how many of these are in memory too.
  uint64_t stored_ = 0;
  uint64_t stored_in_memory_ = 0;
  uint64_t highest_lsn_ = 0;
  uint64_t rows_read_ = 0;
  uint64_t rows_written_ = 0;
  Hands row_hands_;
  Hands count_hands_;
  uint64_t expire_stored_from_ = 0;
  // Which Fetched is good.
  uint64_t serial_ = 0;
  // Of the keys in hand, the rows in memory.
  std::vector<uint32_t> numbers_;
  std::vector<uint64_t> missing_;
  std::vector<std::byte> encoded_;
  std::vector<uint64_t> dropped_;
  bool too_many_dropped_ = false;
};

// The partition's record beside rows, of which each table has one under its number as key: what
// Recover reads.
inline constexpr uint32_t kTierTable = 0xffffffff;

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_TIERED_TABLE_H_
