#ifndef MUSTER_SERVER_SHARD_PREVIOUS_ROWS_H_
#define MUSTER_SERVER_SHARD_PREVIOUS_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tables/key_index.h"
#include "common/tables/sparse_table.h"

namespace muster {

// The weights that a sparse table's rows had before the last clock's update: those rows alone that
// it changed. Not thread-safe.
class PreviousRows {
 public:
  // Forgets what was kept, then keeps the weights of these rows. REQUIRES: distinct keys.
  void Keep(const SparseTable& table, absl::Span<const uint64_t> keys);

  // As SparseTable::Pull, with the weights as they were.
  void Pull(const SparseTable& table, absl::Span<const uint64_t> keys, absl::Span<float> out) const;

 private:
  KeyIndex index_;
  std::vector<float> weights_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PREVIOUS_ROWS_H_
