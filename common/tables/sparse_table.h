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

// One partition's rows of a sparse table, in memory. A row is one record: its key, the log sequence
// number it includes, its steps and last use, its weights and its optimizer's slots, all next to
// one another, so that an update touches contiguous memory.
//
// Rows come to be at their first update, from the table's initialiser; before that they read as
// their initial value. Look-ups go over the keys in groups, loading first the index's lines, then
// the records, then computing: the processor waits for memory once per group rather than once per
// key.
//
// Who keeps rows elsewhere too looks them up by number (Find), decides of each that is missing, and
// goes on with the numbers (UpdateRows).
//
// Not thread-safe.
class SparseTable {
 public:
  using Row = RowMemory::Row;

  static constexpr uint32_t kMissing = RowMemory::kMissing;

  // How an update counts the optimizer's steps.
  enum class Steps {
    // As the OptimizerStep says, which under BSP is the clock.
    kGiven,
    // Each row's own count, plus one.
    kPerRow,
  };

  // Is told before rows change: how a view of them is kept while they do.
  class ChangeObserver {
   public:
    virtual ~ChangeObserver() = default;
    // The row's values change next, or it goes.
    virtual void BeforeChange(uint32_t number, const Row& row) = 0;
    // A row came to be.
    virtual void Added(uint32_t number) = 0;
  };

  // `spec` and `optimizer` (of Granularity::kRow) must outlive the table; `seed` is the job's.
  SparseTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer);

  size_t rows() const { return rows_.rows(); }
  uint32_t dim() const { return spec_.dim; }
  // Floats of a row: its weights and slots.
  uint32_t width() const { return width_; }
  size_t memory_bytes() const { return rows_.memory_bytes(); }
  // Memory that one more row takes at most, in the mean.
  size_t bytes_per_row() const { return rows_.bytes_per_row(); }

  // Writes the weights of each key, in order; keys may repeat. `out` has keys.size() * dim()
  // elements.
  void Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) const;

  // One optimizer step on each key's row, which is made if it is missing. Rows that include `lsn`
  // are left as they are. `lsn` 0 stands for no log. A row's last use is the highest clock of its
  // updates. REQUIRES: distinct keys; gradients.size() == keys.size() * dim().
  void Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
              const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);

  // The row of a key that is to be filled from storage: new with initial slots, or the one that is
  // there.
  Row& Load(uint64_t key);

  // All rows, or those with a wanted key, in ascending order of key; valid until the next change.
  std::vector<const Row*> Sorted() const;
  std::vector<const Row*> Sorted(absl::FunctionRef<bool(uint64_t key)> wanted) const;

  // Writes the number of each key's row, or kMissing. Returns how many are missing. `numbers` has
  // keys.size() elements.
  size_t Find(absl::Span<const uint64_t> keys, absl::Span<uint32_t> numbers) const;
  uint32_t Find(uint64_t key) const { return rows_.Find(key); }
  // Makes a row, with initial weights and slots or for the caller to fill. REQUIRES: it is missing.
  uint32_t Add(uint64_t key);
  uint32_t AddUnfilled(uint64_t key);
  // The same as Update of rows by number, kMissing ones left out; gradients by row, wherever each
  // lies.
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
  // Forgets a row, whose number may then be another's.
  void Erase(uint32_t number);
  // As RowMemory::Next and its number_limit.
  uint32_t Next(uint32_t from) const { return rows_.Next(from); }
  uint32_t number_limit() const { return rows_.number_limit(); }
  // Null: none. At most one at a time.
  void set_observer(ChangeObserver* observer) { observer_ = observer; }

 private:
  // UpdateRows, with row i's gradient at gradient_of(i).
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
