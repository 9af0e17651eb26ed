#ifndef MUSTER_SERVER_SHARD_SPARSE_SUM_H_
#define MUSTER_SERVER_SHARD_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "common/tables/row_sum.h"
#include "server/shard/sparse_chunk.h"

namespace muster {

// The gradients of one clock for one partition of a sparse table, under BSP: chunks wait until all
// slots have closed the clock and are then summed per key in order of (slot, chunk), so that the
// sum has the same bits however they came in. Memory is that of the chunks: at most one
// contribution of each slot.
//
// Not thread-safe.
class SparseSum {
 public:
  explicit SparseSum(uint32_t dim) : sum_(dim) {}

  void Add(uint32_t slot, uint32_t chunk, SparseChunk gradients);

  // Sums what was added. Adding more is for the next clock, after Clear.
  void Finish();

  // Distinct keys in order of their first appearance, and their sums row after row. After Finish.
  absl::Span<const uint64_t> keys() const { return sum_.keys(); }
  absl::Span<const float> sums() const { return sum_.sums(); }
  // Squared norm of all sums.
  double SquaredNorm() const;

  void Clear();

  size_t memory_bytes() const { return chunk_bytes_ + sum_.sums().capacity() * sizeof(float); }

 private:
  // By (slot, chunk).
  std::map<std::pair<uint32_t, uint32_t>, SparseChunk> chunks_;
  size_t chunk_bytes_ = 0;
  RowSum sum_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SPARSE_SUM_H_
