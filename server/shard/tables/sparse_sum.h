#ifndef MUSTER_SERVER_SHARD_TABLES_SPARSE_SUM_H_
#define MUSTER_SERVER_SHARD_TABLES_SPARSE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/tables/key_index.h"
#include "server/shard/calls/sparse_chunk.h"

namespace muster {

// Gradients of one partition of a sparse table that one step is to be made of: under BSP those of a
// clock, whose chunks wait until all slots have closed it; else those of a push. They are summed
// per key in order of (slot, chunk, row), so that the sum has the same bits however they came in.
//
// Rows stay where they came and are only read there: the sum of a key that comes once, as most keys
// of a clock do, is its row. That of a key that comes again is made in an array of the pool.
//
// Not thread-safe.
class SparseSum {
 public:
  // `pool` must outlive it.
  SparseSum(uint32_t dim, BufferPool& pool) : dim_(dim), pool_(&pool) {}

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

  // Of the chunks, and of the sums that are made.
  size_t memory_bytes() const { return chunk_bytes_ + made_blocks_.size() * made_block_bytes(); }

 private:
  // Sums that are made in one array of the pool.
  static constexpr size_t kMadeInBlock = 256;
  size_t made_block_bytes() const { return kMadeInBlock * dim_ * sizeof(float); }

  void AddTo(uint32_t number, const float* row);

  const uint32_t dim_;
  BufferPool* const pool_;
  // By (slot, chunk).
  std::map<std::pair<uint32_t, uint32_t>, SparseChunk> chunks_;
  size_t chunk_bytes_ = 0;
  KeyIndex index_;
  std::vector<uint64_t> keys_;
  // Into the chunks, and into made_blocks_.
  std::vector<const float*> sums_;
  // By key's number, as far as any came again: its sum, if it is made.
  std::vector<float*> made_;
  size_t made_count_ = 0;
  std::vector<std::shared_ptr<float>> made_blocks_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_SPARSE_SUM_H_
