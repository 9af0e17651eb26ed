#ifndef MUSTER_SERVER_SHARD_SPARSE_SUM_H_
#define MUSTER_SERVER_SHARD_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/tables/key_index.h"
#include "server/shard/sparse_chunk.h"

namespace muster {

// The gradients of one clock for one partition of a sparse table, under BSP: chunks wait until all
// slots have closed the clock and are then summed per key in order of (slot, chunk), so that the
// sum has the same bits however they came in.
//
// Nothing is copied: a key's first row is where its sum is made, and most keys of a clock come
// once. Memory is that of the chunks: at most one contribution of each slot.
//
// Not thread-safe.
class SparseSum {
 public:
  explicit SparseSum(uint32_t dim) : dim_(dim) {}

  // Takes the chunk's rows over: their values change.
  void Add(uint32_t slot, uint32_t chunk, SparseChunk gradients);

  // Sums what was added. Adding more is for the next clock, after Clear.
  void Finish();

  // Distinct keys in order of their first appearance, and where the sum of each lies. Between
  // Finish and Clear.
  absl::Span<const uint64_t> keys() const { return keys_; }
  absl::Span<const float* const> sums() const { return sums_; }
  // Squared norm of all sums.
  double SquaredNorm() const;

  void Clear();

  size_t memory_bytes() const { return chunk_bytes_; }

 private:
  const uint32_t dim_;
  // By (slot, chunk).
  std::map<std::pair<uint32_t, uint32_t>, SparseChunk> chunks_;
  size_t chunk_bytes_ = 0;
  KeyIndex index_;
  std::vector<uint64_t> keys_;
  // Into the chunks.
  std::vector<float*> sums_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SPARSE_SUM_H_
