#include "worker/strategy/servers/row_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/machine/prefetch.h"
#include "common/partition/sparse_placement.h"
#include "common/tensor/half.h"

namespace muster {
namespace {

// Rows that are to be written, and may lie anywhere, are loaded so far ahead.
constexpr size_t kRowsAhead = 6;
constexpr uint32_t kLineFloats = 16;
// Shorter rows cost less to copy than to point to.
constexpr size_t kLongRowBytes = 128;

Payload RowsInPlace(const RowGroup& group, const PushedRows& pushed) {
  struct Kept {
    std::vector<uint64_t> keys;
    std::shared_ptr<const void> rows;
  };
  const auto kept = std::make_shared<Kept>();
  kept->rows = pushed.owner;
  kept->keys.reserve(group.positions.size());
  std::vector<Payload::Span> spans;
  spans.reserve(1 + group.positions.size());
  spans.emplace_back();
  const size_t row_bytes = pushed.dim * sizeof(float);
  const auto* const rows = reinterpret_cast<const std::byte*>(pushed.rows.data());
  for (const int32_t position : group.positions) {
    kept->keys.push_back(pushed.keys[position]);
    const std::byte* const row = rows + static_cast<size_t>(position) * row_bytes;
    // Rows that lie side by side are one span.
    if (Payload::Span& last = spans.back(); last.data() + last.size() == row) {
      last = Payload::Span(last.data(), last.size() + row_bytes);
    } else {
      spans.emplace_back(row, row_bytes);
    }
  }
  spans.front() = Payload::Span(reinterpret_cast<const std::byte*>(kept->keys.data()),
                                kept->keys.size() * sizeof(uint64_t));
  return Payload(std::move(spans), kept);
}

// Takes an answer's bytes row by row; spans end anywhere, also within a row or an element.
// `take(i, bytes)` gets row i of the answer, whole.
template <typename Take>
void ForEachRow(const Payload& payload, size_t row_bytes, Take take) {
  std::vector<std::byte> split(row_bytes);
  size_t row = 0;
  size_t filled = 0;
  for (Payload::Span span : payload.spans()) {
    if (filled > 0) {
      const size_t bytes = std::min(span.size(), row_bytes - filled);
      std::memcpy(split.data() + filled, span.data(), bytes);
      span.remove_prefix(bytes);
      filled += bytes;
      if (filled < row_bytes) continue;
      take(row++, split.data());
      filled = 0;
    }
    for (; span.size() >= row_bytes; span.remove_prefix(row_bytes)) take(row++, span.data());
    filled = span.size();
    if (filled > 0) std::memcpy(split.data(), span.data(), filled);
  }
}

}  // namespace

std::vector<RowGroup> GroupRows(absl::Span<const uint64_t> keys, uint32_t partitions,
                                int64_t max_rows) {
  std::vector<std::vector<int32_t>> by_partition(partitions);
  for (std::vector<int32_t>& positions : by_partition) {
    positions.reserve(keys.size() / partitions + keys.size() / (8 * partitions) + 8);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    by_partition[SparsePartition(keys[i], partitions)].push_back(static_cast<int32_t>(i));
  }
  std::vector<RowGroup> groups;
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    std::vector<int32_t>& all = by_partition[partition];
    const int64_t count = static_cast<int64_t>(all.size());
    for (int64_t begin = 0; begin < count; begin += max_rows) {
      const int64_t end = std::min(count, begin + max_rows);
      RowGroup& group = groups.emplace_back();
      group.partition = partition;
      group.chunk = static_cast<uint32_t>(begin / max_rows);
      if (begin == 0 && end == count) {
        group.positions = std::move(all);
      } else {
        group.positions.assign(all.begin() + begin, all.begin() + end);
      }
    }
  }
  return groups;
}

Payload GatherKeys(const RowGroup& group, absl::Span<const uint64_t> keys) {
  std::vector<uint64_t> gathered;
  gathered.reserve(group.positions.size());
  for (int32_t position : group.positions) gathered.push_back(keys[position]);
  return Payload::Of(std::move(gathered));
}

Payload GatherRows(const RowGroup& group, const PushedRows& pushed, const RowCoding& coding,
                   BufferPool& pool) {
  const uint32_t dim = pushed.dim;
  if (coding.type == DType::kF32 && dim * sizeof(float) >= kLongRowBytes) {
    return RowsInPlace(group, pushed);
  }
  const size_t count = group.positions.size();
  const size_t row_bytes = dim * SizeOf(coding.type);
  const size_t bytes = count * (sizeof(uint64_t) + row_bytes);
  const std::shared_ptr<float> memory = pool.Take((bytes + sizeof(float) - 1) / sizeof(float));
  auto* const begin = reinterpret_cast<std::byte*>(memory.get());
  std::byte* key = begin;
  std::byte* row = begin + count * sizeof(uint64_t);
  for (int32_t position : group.positions) {
    const absl::Span<const float> from =
        pushed.rows.subspan(static_cast<size_t>(position) * dim, dim);
    std::memcpy(key, &pushed.keys[position], sizeof(uint64_t));
    if (coding.type == DType::kF32) {
      std::memcpy(row, from.data(), row_bytes);
    } else {
      RoundStochastically(coding.type, from,
                          coding.random.Uint64(pushed.keys[position], coding.draw),
                          reinterpret_cast<uint16_t*>(row));
    }
    key += sizeof(uint64_t);
    row += row_bytes;
  }
  return Payload({Payload::Span(begin, bytes)}, memory);
}

void ScatterRows(const RowGroup& group, const Payload& payload, DType type, uint32_t dim,
                 absl::Span<float> rows) {
  const absl::Span<const int32_t> positions = group.positions;
  ForEachRow(payload, dim * SizeOf(type), [&](size_t i, const std::byte* bytes) {
    if (i + kRowsAhead < positions.size()) {
      const float* const next = &rows[size_t{dim} * positions[i + kRowsAhead]];
      for (uint32_t k = 0; k < dim; k += kLineFloats) Prefetch(next + k);
    }
    const absl::Span<float> to = rows.subspan(size_t{dim} * positions[i], dim);
    if (type == DType::kF32) {
      std::memcpy(to.data(), bytes, dim * sizeof(float));
    } else {
      WidenHalf(type, bytes, to);
    }
  });
}

}  // namespace muster
