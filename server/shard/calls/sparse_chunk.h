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

// A sparse push or pull, as its payload says it: u64 keys[rows], then (of a push) rows[rows][dim].
struct SparseChunk {
  // A copy of its own: what was checked stays as it was.
  absl::Span<const uint64_t> keys;
  // Where each row lies, as f32; empty for a pull. In the payload's memory wherever it can be read
  // there, which is next to everywhere.
  std::vector<const float*> rows;
  // Of keys, rows, and the pointers to these.
  size_t bytes = 0;
  // What keys and rows lie in.
  std::shared_ptr<const float> memory;
  Payload payload;
};

// Reads a payload of `rows` keys with `dim` elements of `type` each (0 for a pull). Copies, into an
// array of the pool, are made of the keys, of rows that two spans of the payload share, and of all
// rows where these are halves, or a span is not aligned for f32. INVALID_ARGUMENT: the payload has
// another length; the message names both.
absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            DType type, BufferPool& pool);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_SPARSE_CHUNK_H_
