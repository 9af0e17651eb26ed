#ifndef MUSTER_SERVER_SHARD_CALLS_SPARSE_CHUNK_H_
#define MUSTER_SERVER_SHARD_CALLS_SPARSE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"

namespace muster {

// A sparse push or pull, read from its payload: u64 keys[rows], then (of a push) rows[rows][dim].
struct SparseChunk {
  // Keys, copied so that they stay as they were checked.
  absl::Span<const uint64_t> keys;
  // Address of each row as f32; empty for a pull. Nearly all rows lie in the payload's memory.
  std::vector<const float*> rows;
  // Bytes of the keys, the rows, and the pointers to the rows.
  size_t bytes = 0;
  // Memory that holds keys and rows.
  std::shared_ptr<const float> memory;
  Payload payload;
};

// Reads a payload of `rows` keys with `dim` elements of `type` each (0 for a pull). Copies keys,
// rows that lie across spans of the payload, and all rows that are halves or not aligned for f32,
// into an array of the pool. INVALID_ARGUMENT names the payload's length and what it should be.
absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            DType type, BufferPool& pool);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_SPARSE_CHUNK_H_
