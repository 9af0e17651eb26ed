#include "server/shard/sparse_chunk.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/wire_elements.h"

namespace muster {

absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            DType type, BufferPool& pool) {
  const uint64_t row_bytes = sizeof(uint64_t) + uint64_t{dim} * SizeOf(type);
  // Divides, because the product of what a client sent may overflow.
  if (payload.size() / row_bytes != rows || payload.size() % row_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload has ", payload.size(), " bytes; ", rows, " rows need ", row_bytes,
                     " bytes each (a u64 key and ", dim, " ", Name(type), ")"));
  }
  const std::shared_ptr<float> memory = pool.Take(rows * (2 + uint64_t{dim}));
  if (type == DType::kF32) {
    payload.CopyTo(memory.get());
  } else {
    const size_t key_bytes = rows * sizeof(uint64_t);
    payload.Slice(0, key_bytes).CopyTo(memory.get());
    ReadElements(type, payload.Slice(key_bytes, payload.size() - key_bytes),
                 {memory.get() + rows * 2, rows * dim});
  }
  SparseChunk chunk;
  // Pool arrays are aligned to 64 bytes.
  chunk.keys = {reinterpret_cast<const uint64_t*>(memory.get()), rows};
  chunk.rows = {memory.get() + rows * 2, rows * dim};
  chunk.memory = memory;
  return chunk;
}

}  // namespace muster
