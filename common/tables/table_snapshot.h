#ifndef MUSTER_COMMON_TABLES_TABLE_SNAPSHOT_H_
#define MUSTER_COMMON_TABLES_TABLE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/checkpoint/partition_file.h"
#include "common/tables/row_memory.h"
#include "common/tables/sparse_table.h"

namespace muster {

// The rows of a SparseTable as they were at one moment, read in batches while the table goes on
// changing. Taking the snapshot copies nothing: a row that is about to change or to be erased
// before it was read is copied aside.
//
//   TableSnapshot snapshot(table);   // the moment
//   while (!snapshot.Collect(…)) {}  // keys of all rows, a batch at a time, changes in between
//   snapshot.Read(…)                 // then rows, each once, in any order, changes in between
//
// Cost: one bit a row, and a copy of each row that changes before it was read. Taking it takes
// time for the bits alone; Collect touches one cache line a row.
//
// All calls come from the thread that changes the table. A table has one snapshot at a time.
class TableSnapshot final : public SparseTable::ChangeObserver {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t number = 0;
    // Returns true if the caller wants to read the row.
    bool wanted = false;

    friend bool operator<(const Entry& a, const Entry& b) { return a.key < b.key; }
  };

  // Rows that were read, column by column.
  struct Rows {
    std::vector<uint64_t> keys;
    std::vector<uint32_t> steps;
    std::vector<uint32_t> last_use;
    std::vector<float> values;
    uint32_t width = 0;

    void Clear();
    void Append(uint64_t key, uint32_t row_steps, uint32_t row_last_use, const float* row_values);
    StoredRows view() const;
  };

  // The table must outlive it.
  explicit TableSnapshot(SparseTable& table);
  ~TableSnapshot() override;
  TableSnapshot(const TableSnapshot&) = delete;
  TableSnapshot& operator=(const TableSnapshot&) = delete;

  uint32_t width() const { return table_.width(); }
  // Memory of rows copied aside.
  size_t memory_bytes() const { return aside_.size() * kSlabRows * aside_bytes_; }

  // Appends the keys of up to `most` more rows, and calls `wanted` for each. A row that is not
  // wanted is not copied aside from then on. Returns whether these were the last.
  bool Collect(size_t most, absl::FunctionRef<bool(uint32_t steps, uint32_t last_use)> wanted,
               std::vector<Entry>& entries);

  // Appends the rows of the entries that are wanted. REQUIRES: Collect has returned true; the
  // entries came from it, each is read at most once.
  void Read(absl::Span<const Entry> entries, Rows& rows);

  // Called by the table.
  void BeforeChange(uint32_t number, const SparseTable::Row& row) override;
  void Added(uint32_t number) override;

 private:
  static constexpr size_t kSlabRows = 512;

  // Returns place `index` of the rows copied aside.
  std::byte* Place(uint32_t index) const {
    return aside_[index / kSlabRows].get() + index % kSlabRows * aside_bytes_;
  }
  const SparseTable::Row& Aside(uint32_t number) const;

  SparseTable& table_;
  // Rows with this number or a higher one were added after the moment.
  const uint32_t limit_;
  // By number: copied aside, read, not wanted, or no row at the moment.
  std::vector<bool> done_;
  // Collect has come to this number.
  uint32_t collected_ = 0;
  // Numbers that were copied aside before Collect came to them.
  std::vector<uint32_t> uncollected_;
  // By number, the place of a row copied aside. A standard map stays intact when memory runs out.
  std::unordered_map<uint32_t, uint32_t> aside_index_;
  // Bytes of a row, and from one row to the next in a slab; then the slabs.
  const size_t row_bytes_;
  const size_t aside_bytes_;
  std::vector<std::unique_ptr<std::byte[]>> aside_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_TABLE_SNAPSHOT_H_
