#include "worker/strategy/norm_cells.h"

#include <algorithm>

namespace muster {

NormCells::NormCells(const DenseLayout& layout, const ShardLayout& shards)
    : blocks_(shards.holders().count()), counts_(shards.holders().count()) {
  for (const DenseLayout::Block& block : layout.blocks()) units_.push_back(block.unit);
  for (uint32_t id = 0; id < layout.blocks().size(); ++id) {
    const DenseLayout::Block& block = layout.blocks()[id];
    const ShardLayout::Part& part = shards.parts()[block.part];
    DenseLayout::Block stretch = {.part = block.part};
    for (stretch.begin = block.begin; stretch.begin < block.end; stretch.begin = stretch.end) {
      const uint64_t slice = (stretch.begin - part.begin) / part.slice;
      stretch.end = std::min(block.end, part.begin + (slice + 1) * part.slice);
      const size_t cells = block.in_norm() ? layout.cells(stretch).Count(stretch.elements()) : 0;
      for (int holder = 0; holder < shards.holders().count(); ++holder) {
        if (static_cast<uint64_t>(shards.SliceOf(part, holder)) != slice) continue;
        const bool repeated = !part.experts && shards.holders().Repeats(holder);
        blocks_[holder].push_back({id, repeated ? 0 : cells});
        counts_[holder] += blocks_[holder].back().count;
      }
    }
  }
}

std::vector<double> NormCells::AddUp(absl::Span<const absl::Span<const double>> cells) const {
  std::vector<double> norms(units_.size());
  // Holder after holder, a block's cells come in their order.
  for (size_t holder = 0; holder < blocks_.size(); ++holder) {
    const double* cell = cells[holder].data();
    for (const BlockCells& block : blocks_[holder]) {
      for (size_t i = 0; i < block.count; ++i) norms[block.id] += *cell++;
    }
  }
  return norms;
}

}  // namespace muster
