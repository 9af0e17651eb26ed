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

// The rows of a SparseTable as they were at one moment, read out in batches while the table goes
// on changing. Nothing is copied when the snapshot is taken: a row that is about to change, or to
// go, before it was read out is copied aside first, which the table asks for.
//
//   TableSnapshot snapshot(table);   // the moment
//   while (!snapshot.Collect(…)) {}  // keys of all rows, a batch at a time, changes in between
//   snapshot.Read(…)                 // then rows, each once, in any order, changes in between
//
// Cost: 4 + 2 bits a row, and a copy of each row that changes before it was read. Taking it costs
// time for the bits alone; Collect touches one cache line a row.
//
// Everything by the thread that changes the table. One snapshot of a table at a time.
class TableSnapshot final : public SparseTable::ChangeObserver {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t number = 0;
    // Whether the caller wants it read out.
    bool wanted = false;

    friend bool operator<(const Entry& a, const Entry& b) { return a.key < b.key; }
  };

  // Rows that were read out, column by column.
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
  // Memory of what was copied aside.
  size_t memory_bytes() const { return aside_.size() * kSlabRows * aside_bytes_; }

  // Appends the keys of up to `most` more rows; `wanted` is asked of each. A row that is not wanted
  // is not copied aside any more. Returns whether that were the last.
  bool Collect(size_t most, absl::FunctionRef<bool(uint32_t steps, uint32_t last_use)> wanted,
               std::vector<Entry>& entries);

  // Appends the rows of those entries that are wanted. REQUIRES: they came from Collect, which is
  // done; each at most once.
  void Read(absl::Span<const Entry> entries, Rows& rows);

  // The table's side.
  void BeforeChange(uint32_t number, const SparseTable::Row& row) override;
  void Added(uint32_t number) override;

 private:
  static constexpr size_t kSlabRows = 512;

  // Place `index` of the rows copied aside.
  std::byte* Place(uint32_t index) const {
    return aside_[index / kSlabRows].get() + index % kSlabRows * aside_bytes_;
  }
  const SparseTable::Row& Aside(uint32_t number) const;

  SparseTable& table_;
  // Numbers from here on came after the moment.
  const uint32_t limit_;
  // Copied aside, read out, not wanted, or no row at the moment.
  std::vector<bool> done_;
  // Collect has come to this number.
  uint32_t collected_ = 0;
  // Numbers that were copied aside before Collect came to them.
  std::vector<uint32_t> uncollected_;
  // By number, the place of a row copied aside. The standard library's, which bears that memory
  // runs out.
  std::unordered_map<uint32_t, uint32_t> aside_index_;
  // Bytes of a row, those to the start of the next one, and slabs of rows.
  const size_t row_bytes_;
  const size_t aside_bytes_;
  std::vector<std::unique_ptr<std::byte[]>> aside_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_TABLE_SNAPSHOT_H_
