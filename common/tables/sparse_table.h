#ifndef MUSTER_COMMON_TABLES_SPARSE_TABLE_H_
#define MUSTER_COMMON_TABLES_SPARSE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/optim/optimizer.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/key_index.h"

namespace muster {

// One partition's rows of a sparse table, in memory. A row is one record: its key, the log sequence
// number it includes, its steps and last use, its weights and its optimizer's slots, all next to
// one another, so that an update touches a single stretch of memory. Records lie in slabs and never
// move.
//
// Rows come to be at their first update, from the table's initialiser; before that they read as
// their initial value. Look-ups go over the keys in groups, loading first the index's lines, then
// the records, then computing: the processor waits for memory once per group rather than once per
// key.
//
// Not thread-safe.
class SparseTable {
 public:
  struct Row {
    uint64_t key;
    // Log sequence number of the last record that changed it.
    uint64_t lsn;
    // Updates it has seen.
    uint32_t steps;
    // Clock of the last one.
    uint32_t last_use;

    // dim weights, then the optimizer's slots.
    float* values() { return reinterpret_cast<float*>(this + 1); }
    const float* values() const { return reinterpret_cast<const float*>(this + 1); }
  };

  // How an update counts the optimizer's steps.
  enum class Steps {
    // As the OptimizerStep says, which under BSP is the clock.
    kGiven,
    // Each row's own count, plus one.
    kPerRow,
  };

  // `spec` and `optimizer` (of Granularity::kRow) must outlive the table; `seed` is the job's.
  SparseTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer);

  size_t rows() const { return index_.size(); }
  uint32_t dim() const { return spec_.dim; }
  // Floats of a row: its weights and slots.
  uint32_t width() const { return width_; }
  size_t memory_bytes() const { return slabs_.size() * kSlabRows * stride_ + index_.bytes(); }
  // Memory that one more row takes at most, in the mean.
  size_t bytes_per_row() const { return stride_ + 32; }

  // Writes the weights of each key, in order; keys may repeat. `out` has keys.size() * dim()
  // elements.
  void Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) const;

  // One optimizer step on each key's row, which is made if it is missing. Rows that include `lsn`
  // are left as they are. `lsn` 0 stands for no log. REQUIRES: distinct keys; gradients.size() ==
  // keys.size() * dim().
  void Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
              const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn);

  // The row of a key that is to be filled from storage: new with initial slots, or the one that is
  // there.
  Row& Load(uint64_t key);

  // All rows in ascending order of key; valid until the next change.
  std::vector<const Row*> Sorted() const;

 private:
  static constexpr size_t kSlabRows = 1024;

  Row& At(uint32_t number) {
    return *reinterpret_cast<Row*>(slabs_[number / kSlabRows].get() +
                                   (number % kSlabRows) * stride_);
  }
  const Row& At(uint32_t number) const { return const_cast<SparseTable*>(this)->At(number); }
  uint32_t FindOrAdd(uint64_t key);

  const SparseTableSpec& spec_;
  const uint64_t seed_;
  const Optimizer& optimizer_;
  const uint32_t width_;
  // Bytes from one record to the next.
  const size_t stride_;
  KeyIndex index_;
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_SPARSE_TABLE_H_
