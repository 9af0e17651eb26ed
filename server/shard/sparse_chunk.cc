#include "server/shard/sparse_chunk.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            BufferPool& pool) {
  const uint64_t row_bytes = sizeof(uint64_t) + uint64_t{dim} * sizeof(float);
  // Divides, because the product of what a client sent may overflow.
  if (payload.size() / row_bytes != rows || payload.size() % row_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("payload has ", payload.size(), " bytes; ", rows,
                                                   " rows need ", row_bytes,
                                                   " bytes each (a u64 key and ", dim, " f32)"));
  }
  const std::shared_ptr<float> memory =
      pool.Take((payload.size() + sizeof(float) - 1) / sizeof(float));
  payload.CopyTo(memory.get());
  SparseChunk chunk;
  // Pool arrays are aligned to 64 bytes.
  chunk.keys = {reinterpret_cast<const uint64_t*>(memory.get()), rows};
  chunk.rows = {memory.get() + rows * 2, rows * dim};
  chunk.memory = memory;
  return chunk;
}

}  // namespace muster
