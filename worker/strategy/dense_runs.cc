#include "worker/strategy/dense_runs.h"

#include <cstddef>

#include "common/tensor/wire_elements.h"

namespace muster {

std::vector<std::vector<DenseRun>> DenseRunsByUnit(const DenseLayout& layout, int units,
                                                   uint64_t max_bytes) {
  std::vector<std::vector<DenseRun>> runs(units);
  for (uint32_t partition = 0; partition < layout.partitions(); ++partition) {
    // The run that the next block may join; null where the partition's first block starts one
    // anyway.
    DenseRun* open = nullptr;
    uint32_t open_unit = 0;
    for (uint32_t id : layout.partition_blocks(partition)) {
      const DenseLayout::Block& block = layout.blocks()[id];
      if (open == nullptr || open_unit != block.unit ||
          (open->elements + block.elements()) * sizeof(float) > max_bytes) {
        open = &runs[block.unit].emplace_back();
        open_unit = block.unit;
        open->partition = partition;
        open->first_block = block.index_in_partition;
      }
      ++open->blocks;
      open->elements += block.elements();
      if (!open->ranges.empty() && open->ranges.back().second == block.begin) {
        open->ranges.back().second = block.end;
      } else {
        open->ranges.emplace_back(block.begin, block.end);
      }
    }
  }
  return runs;
}

Payload GatherRun(const DenseRun& run, absl::Span<const float> flat,
                  std::shared_ptr<const void> owner) {
  std::vector<Payload::Piece> pieces;
  for (auto [begin, end] : run.ranges) {
    pieces.emplace_back(reinterpret_cast<const std::byte*>(flat.data() + begin),
                        (end - begin) * sizeof(float));
  }
  return Payload(std::move(pieces), std::move(owner));
}

void ScatterRun(const DenseRun& run, const Payload& payload, DType type, absl::Span<float> flat) {
  size_t offset = 0;
  for (auto [begin, end] : run.ranges) {
    const size_t bytes = (end - begin) * SizeOf(type);
    ReadElements(type, payload.Slice(offset, bytes), flat.subspan(begin, end - begin));
    offset += bytes;
  }
}

}  // namespace muster
