#ifndef MUSTER_SERVER_SHARD_SPARSE_CHUNK_H_
#define MUSTER_SERVER_SHARD_SPARSE_CHUNK_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"

namespace muster {

// The payload of a sparse push or pull, aligned and in f32: u64 keys[rows], then (of a push)
// rows[rows][dim].
struct SparseChunk {
  absl::Span<const uint64_t> keys;
  // Row after row; empty for a pull. Nobody else has the memory: sums are made in it.
  absl::Span<float> rows;
  std::shared_ptr<const float> memory;
};

// Copies a payload of `rows` keys with `dim` elements of `type` each (0 for a pull) into an array
// of the pool. INVALID_ARGUMENT: the payload has another length; the message names both.
absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            DType type, BufferPool& pool);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SPARSE_CHUNK_H_
