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

// Sums the gradients of one step of one partition of a sparse table. Under BSP they are those of a
// clock, whose chunks wait until all slots have closed the clock; otherwise those of one push. Each
// key's gradients are added in order of (slot, chunk, row), so that the sum has the same bits in
// whatever order they came.
//
// Rows are only read, where they came. The sum of a key that comes once, as most keys of a clock
// do, is the row itself. The sum of a key that comes again is made in an array of the pool.
//
// Not thread-safe.
class SparseSum {
 public:
  // `pool` must outlive the sum.
  SparseSum(uint32_t dim, BufferPool& pool) : dim_(dim), pool_(&pool) {}

  void Add(uint32_t slot, uint32_t chunk, SparseChunk gradients);

  // Sums what was added. Nothing more may be added before Clear.
  void Finish();

  // Return the distinct keys in order of their first appearance, and the address of each key's sum.
  // REQUIRES: after Finish, before Clear.
  absl::Span<const uint64_t> keys() const { return keys_; }
  absl::Span<const float* const> sums() const { return sums_; }
  // Returns the squared norm of all sums.
  double SquaredNorm() const;

  void Clear();

  // Returns the bytes of the chunks and of the sums that are made.
  size_t memory_bytes() const { return chunk_bytes_ + made_blocks_.size() * made_block_bytes(); }

 private:
  // Number of sums in one array of the pool.
  static constexpr size_t kMadeInBlock = 256;
  size_t made_block_bytes() const { return kMadeInBlock * dim_ * sizeof(float); }

  void AddTo(uint32_t number, const float* row);

  const uint32_t dim_;
  BufferPool* const pool_;
  // Keys are (slot, chunk).
  std::map<std::pair<uint32_t, uint32_t>, SparseChunk> chunks_;
  size_t chunk_bytes_ = 0;
  KeyIndex index_;
  std::vector<uint64_t> keys_;
  // Addresses in the chunks or in made_blocks_.
  std::vector<const float*> sums_;
  // Sums that are made, by the numbers of their keys; null, or beyond the end, for other keys.
  std::vector<float*> made_;
  size_t made_count_ = 0;
  std::vector<std::shared_ptr<float>> made_blocks_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_SPARSE_SUM_H_
