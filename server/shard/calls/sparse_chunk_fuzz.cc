#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/tensor/wire_elements.h"
#include "server/shard/calls/sparse_chunk.h"

namespace muster {
namespace {

constexpr DType kWireTypes[] = {DType::kF32, DType::kBf16, DType::kF16};

// The bytes in spans of `step` bytes, as a transport might deliver them; the first one begins
// `shift` bytes behind an aligned place.
Payload Cut(absl::string_view bytes, size_t step, size_t shift) {
  auto owner = std::make_shared<std::vector<uint64_t>>((shift + bytes.size() + 7) / 8);
  auto* const begin = reinterpret_cast<std::byte*>(owner->data()) + shift;
  if (!bytes.empty()) std::memcpy(begin, bytes.data(), bytes.size());
  std::vector<Payload::Span> spans;
  for (size_t at = 0; at < bytes.size(); at += step) {
    spans.emplace_back(begin + at, std::min(step, bytes.size() - at));
  }
  return Payload(std::move(spans), std::move(owner));
}

void CheckSame(const SparseChunk& chunk, const Payload& payload, uint64_t rows, uint32_t dim,
               DType type) {
  FUZZ_CHECK(chunk.keys.size() == rows);
  std::vector<uint64_t> keys(rows);
  payload.Slice(0, rows * sizeof(uint64_t)).CopyTo(keys.data());
  FUZZ_CHECK(std::equal(keys.begin(), keys.end(), chunk.keys.begin()));
  if (dim == 0) return;
  FUZZ_CHECK(chunk.rows.size() == rows);
  std::vector<float> values(rows * dim);
  ReadElements(type, payload.Slice(rows * sizeof(uint64_t), rows * dim * SizeOf(type)),
               absl::MakeSpan(values));
  for (uint64_t row = 0; row < rows; ++row) {
    FUZZ_CHECK(std::memcmp(chunk.rows[row], values.data() + row * dim, dim * sizeof(float)) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto rows = input.Number<uint64_t>();
  const auto dim = input.Number<uint32_t>();
  const DType type = kWireTypes[input.Choice(3)];
  const size_t step = 1 + input.Number<uint8_t>();
  const size_t shift = input.Number<uint8_t>() % 8;
  const Payload payload = Cut(input.rest(), step, shift);
  const auto pool = BufferPool::Create(size_t{1} << 30);
  {
    const auto chunk = ReadSparseChunk(payload, rows, dim, type, *pool);
    if (!chunk.ok()) {
      FUZZ_CHECK(chunk.status().code() == absl::StatusCode::kInvalidArgument);
      return 0;
    }
    CheckSame(*chunk, payload, rows, dim, type);
  }
  // Halves double, sizes are rounded up, and small arrays have a least size.
  FUZZ_CHECK(pool->kept_bytes() <= 4096 + 3 * payload.size());
  return 0;
}

}  // namespace muster
