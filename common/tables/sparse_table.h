#ifndef MUSTER_COMMON_TABLES_SPARSE_TABLE_H_
#define MUSTER_COMMON_TABLES_SPARSE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/optim/optimizer.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/row_memory.h"

namespace muster {

// One partition's rows of a sparse table, in memory. A row is one record in contiguous memory: its
// key, the log sequence number it includes, its steps and last use, its weights and its optimizer
// state.
//
// A row exists from its first update, which starts from the table's initialiser; before that it
// reads as its initial value. Look-ups take keys in groups and load first the index's lines, then
// the records, then compute: the processor waits for memory once per group, not once per key.
//
// A caller that keeps rows elsewhere, too, looks them up by number (Find), decides what to do about
// each missing one, and goes on with the numbers (UpdateRows).
//
// Not thread-safe.
class SparseTable {
 public:
  using Row = RowMemory::Row;

  static constexpr uint32_t kMissing = RowMemory::kMissing;

  // How an update counts the optimizer's steps.
  enum class Steps {
    // By OptimizerStep::step, which under BSP is the clock.
    kGiven,
    // By each row's own count, plus one.
    kPerRow,
  };

  // Is told before rows change, so that it can keep a snapshot of them.
  class ChangeObserver {
   public:
    virtual ~ChangeObserver() = default;
    // The row's values are about to change, or the row to be erased.
    virtual void BeforeChange(uint32_t number, const Row& row) = 0;
    // A row was added.
    virtual void Added(uint32_t number) = 0;
  };

  // `spec` and `optimizer` (of Granularity::kRow) must outlive the table; `seed` is the job's.
  SparseTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer);

  size_t rows() const { return rows_.rows(); }
  uint32_t dim() const { return spec_.dim; }
  // Floats of a row: its weights and state.
  uint32_t width() const { return width_; }
  size_t memory_bytes() const { return rows_.memory_bytes(); }
  // The most memory that one more row takes on average.
  size_t bytes_per_row() const { return rows_.bytes_per_row(); }

  // Writes the weights of each key, in order; keys may repeat. `out` has keys.size() * dim()
  // elements.
  void Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) const;

  // Makes one optimizer step on each key's row, adding missing rows and skipping rows that include
  // `lsn`; 0 stands for no log. A row's last use is the highest clock of its updates.
  // REQUIRES: distinct keys; gradients.size() == keys.size() * dim().
  void Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
              const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);

  // Returns a key's row, for the caller to fill from storage; a missing one is added, with initial
  // state.
  Row& Load(uint64_t key);

  // Returns all rows, or those with a wanted key, in ascending order of key; valid until the next
  // change.
  std::vector<const Row*> Sorted() const;
  std::vector<const Row*> Sorted(absl::FunctionRef<bool(uint64_t key)> wanted) const;

  // Writes the number of each key's row, or kMissing. Returns how many are missing. `numbers` has
  // keys.size() elements.
  size_t Find(absl::Span<const uint64_t> keys, absl::Span<uint32_t> numbers) const;
  uint32_t Find(uint64_t key) const { return rows_.Find(key); }
  // Adds a row, with initial weights and state or for the caller to fill. REQUIRES: it is missing.
  uint32_t Add(uint64_t key);
  uint32_t AddUnfilled(uint64_t key);
  // Does the same as Update for rows by number, except kMissing; gradients come row after row, or
  // by a pointer for each row.
  void UpdateRows(absl::Span<const uint32_t> numbers, absl::Span<const float> gradients,
                  const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);
  void UpdateRows(absl::Span<const uint32_t> numbers, absl::Span<const float* const> gradients,
                  const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);
  // Writes a key's initial weights.
  void ReadInitial(uint64_t key, absl::Span<float> out) const;
  // REQUIRES: the number of a row.
  Row& At(uint32_t number) { return rows_.At(number); }
  const Row& At(uint32_t number) const { return rows_.At(number); }
  void Prefetch(uint32_t number) const { rows_.PrefetchRow(number); }
  void PrefetchKey(uint64_t key) const { rows_.PrefetchKey(key); }
  // Removes a row, whose number another row may then get.
  void Erase(uint32_t number);
  // As RowMemory::Next and its number_limit.
  uint32_t Next(uint32_t from) const { return rows_.Next(from); }
  uint32_t number_limit() const { return rows_.number_limit(); }
  // Sets the observer; null: none.
  void set_observer(ChangeObserver* observer) { observer_ = observer; }

 private:
  // Does UpdateRows; row i's gradient is at gradient_of(i).
  template <typename GradientOf>
  void UpdateEach(absl::Span<const uint32_t> numbers, GradientOf gradient_of,
                  const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);

  const SparseTableSpec& spec_;
  const uint64_t seed_;
  const Optimizer& optimizer_;
  const uint32_t width_;
  RowMemory rows_;
  ChangeObserver* observer_ = nullptr;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_SPARSE_TABLE_H_
