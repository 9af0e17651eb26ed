#include "worker/strategy/row_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/partition/sparse_placement.h"

namespace muster {

std::vector<RowGroup> GroupRows(absl::Span<const uint64_t> keys, uint32_t partitions,
                                int64_t max_rows) {
  std::vector<std::vector<int32_t>> by_partition(partitions);
  for (size_t i = 0; i < keys.size(); ++i) {
    by_partition[SparsePartition(keys[i], partitions)].push_back(static_cast<int32_t>(i));
  }
  std::vector<RowGroup> groups;
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    const std::vector<int32_t>& all = by_partition[partition];
    const int64_t count = static_cast<int64_t>(all.size());
    for (int64_t begin = 0; begin < count; begin += max_rows) {
      const int64_t end = std::min(count, begin + max_rows);
      RowGroup& group = groups.emplace_back();
      group.partition = partition;
      group.chunk = static_cast<uint32_t>(begin / max_rows);
      group.positions.assign(all.begin() + begin, all.begin() + end);
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

Payload GatherRows(const RowGroup& group, absl::Span<const uint64_t> keys,
                   absl::Span<const float> rows, uint32_t dim) {
  const size_t count = group.positions.size();
  const size_t row_bytes = dim * sizeof(float);
  std::vector<std::byte> bytes(count * (sizeof(uint64_t) + row_bytes));
  std::byte* key = bytes.data();
  std::byte* row = bytes.data() + count * sizeof(uint64_t);
  for (int32_t position : group.positions) {
    std::memcpy(key, &keys[position], sizeof(uint64_t));
    std::memcpy(row, rows.data() + static_cast<size_t>(position) * dim, row_bytes);
    key += sizeof(uint64_t);
    row += row_bytes;
  }
  return Payload::Of(std::move(bytes));
}

void ScatterRows(const RowGroup& group, const Payload& payload, uint32_t dim,
                 absl::Span<float> rows) {
  // Pieces end anywhere, also within a row or a float.
  size_t row = 0;
  size_t filled = 0;
  const size_t row_bytes = dim * sizeof(float);
  for (Payload::Piece piece : payload.pieces()) {
    while (!piece.empty()) {
      std::byte* target = reinterpret_cast<std::byte*>(
          rows.data() + static_cast<size_t>(group.positions[row]) * dim);
      const size_t bytes = std::min(piece.size(), row_bytes - filled);
      std::memcpy(target + filled, piece.data(), bytes);
      piece.remove_prefix(bytes);
      filled += bytes;
      if (filled == row_bytes) {
        filled = 0;
        ++row;
      }
    }
  }
}

}  // namespace muster
