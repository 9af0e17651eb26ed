#include "worker/strategy/norm_cells.h"

#include <algorithm>

namespace muster {

NormCells::NormCells(const DenseLayout& layout, const ShardLayout& shards)
    : blocks_(shards.shards()), counts_(shards.shards()) {
  for (const DenseLayout::Block& block : layout.blocks()) units_.push_back(block.unit);
  for (uint32_t id = 0; id < layout.blocks().size(); ++id) {
    const DenseLayout::Block& block = layout.blocks()[id];
    const ShardLayout::Part& part = shards.parts()[block.part];
    DenseLayout::Block stretch = {.part = block.part};
    for (stretch.begin = block.begin; stretch.begin < block.end; stretch.begin = stretch.end) {
      const uint64_t shard = (stretch.begin - part.begin) / part.slice;
      stretch.end = std::min(block.end, part.begin + (shard + 1) * part.slice);
      const size_t cells = block.in_norm() ? layout.cells(stretch).Count(stretch.elements()) : 0;
      blocks_[shard].push_back({id, cells});
      counts_[shard] += cells;
    }
  }
}

std::vector<double> NormCells::AddUp(absl::Span<const absl::Span<const double>> cells) const {
  std::vector<double> norms(units_.size());
  // Shard after shard, a block's cells come in their order.
  for (size_t shard = 0; shard < blocks_.size(); ++shard) {
    const double* cell = cells[shard].data();
    for (const BlockCells& block : blocks_[shard]) {
      for (size_t i = 0; i < block.count; ++i) norms[block.id] += *cell++;
    }
  }
  return norms;
}

}  // namespace muster
