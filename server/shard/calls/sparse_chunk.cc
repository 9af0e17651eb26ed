#include "server/shard/calls/sparse_chunk.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/wire_elements.h"

namespace muster {
namespace {

bool Aligned(const Payload& payload) {
  for (const Payload::Span span : payload.spans()) {
    if (reinterpret_cast<uintptr_t>(span.data()) % alignof(float) != 0) return false;
    if (span.size() % sizeof(float) != 0) return false;
  }
  return true;
}

// Appends the address of each row of the payload. Rows that spans share are put together in
// `split`, which has room for all of these.
void FindRows(const Payload& payload, size_t row_bytes, float* split,
              std::vector<const float*>& rows) {
  size_t filled = 0;
  for (Payload::Span span : payload.spans()) {
    if (filled > 0) {
      const size_t bytes = std::min(span.size(), row_bytes - filled);
      std::memcpy(reinterpret_cast<std::byte*>(split) + filled, span.data(), bytes);
      span.remove_prefix(bytes);
      filled += bytes;
      if (filled < row_bytes) continue;
      rows.push_back(split);
      split += row_bytes / sizeof(float);
    }
    for (; span.size() >= row_bytes; span.remove_prefix(row_bytes)) {
      rows.push_back(reinterpret_cast<const float*>(span.data()));
    }
    filled = span.size();
    if (filled > 0) std::memcpy(split, span.data(), filled);
  }
}

}  // namespace

absl::StatusOr<SparseChunk> ReadSparseChunk(const Payload& payload, uint64_t rows, uint32_t dim,
                                            DType type, BufferPool& pool) {
  const uint64_t row_bytes = uint64_t{dim} * SizeOf(type);
  const uint64_t entry_bytes = sizeof(uint64_t) + row_bytes;
  // Divides, because the product of what a client sent may overflow.
  if (payload.size() / entry_bytes != rows || payload.size() % entry_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload has ", payload.size(), " bytes; ", rows, " rows need ", entry_bytes,
                     " bytes each (a u64 key and ", dim, " ", Name(type), ")"));
  }
  const size_t key_bytes = rows * sizeof(uint64_t);
  const Payload values = payload.Slice(key_bytes, rows * row_bytes);
  const bool in_place = type == DType::kF32 && Aligned(values);
  const size_t spans = values.spans().size();
  // Many spans may share one row.
  const size_t shared = std::min<size_t>(spans == 0 ? 0 : spans - 1, rows);
  const size_t copied = in_place ? shared : rows;
  const std::shared_ptr<float> memory =
      pool.Take(key_bytes / sizeof(float) + copied * uint64_t{dim});
  payload.Slice(0, key_bytes).CopyTo(memory.get());
  SparseChunk chunk;
  // Pool arrays are aligned to 64 bytes.
  chunk.keys = {reinterpret_cast<const uint64_t*>(memory.get()), rows};
  chunk.bytes = key_bytes + rows * uint64_t{dim} * sizeof(float);
  chunk.memory = memory;
  if (dim == 0) return chunk;
  chunk.bytes += rows * sizeof(const float*);
  float* const copies = memory.get() + key_bytes / sizeof(float);
  chunk.rows.reserve(rows);
  if (in_place) {
    FindRows(values, row_bytes, copies, chunk.rows);
    chunk.payload = payload;
  } else {
    ReadElements(type, values, {copies, rows * dim});
    for (uint64_t row = 0; row < rows; ++row) chunk.rows.push_back(copies + row * dim);
  }
  return chunk;
}

}  // namespace muster
