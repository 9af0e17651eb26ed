#ifndef MUSTER_COMMON_TABLES_ROW_SUM_H_
#define MUSTER_COMMON_TABLES_ROW_SUM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tables/key_index.h"

namespace muster {

// Gradients of rows of a sparse table, summed per key in the order of Add. Clear costs next to
// nothing and keeps the memory. Not thread-safe.
class RowSum {
 public:
  explicit RowSum(uint32_t dim) : dim_(dim) {}

  // Adds gradients: `rows` is [keys, dim]; keys may repeat.
  void Add(absl::Span<const uint64_t> keys, absl::Span<const float> rows);
  void Clear();

  // Distinct keys in order of their first appearance, and their sums row after row.
  const std::vector<uint64_t>& keys() const { return keys_; }
  const std::vector<float>& sums() const { return sums_; }
  uint32_t dim() const { return dim_; }

  // Exchanges the sums for a vector of any contents. Nothing may be added from then until Clear.
  void TakeSums(std::vector<float>& sums) { sums_.swap(sums); }

 private:
  const uint32_t dim_;
  KeyIndex index_;
  std::vector<uint64_t> keys_;
  std::vector<float> sums_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_ROW_SUM_H_
