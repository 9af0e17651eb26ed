#include "common/partition/shard_layout.h"

#include <algorithm>

#include "common/base/round_up.h"

namespace muster {

ShardLayout::ShardLayout(const DenseLayout& layout, Holders holders) : holders_(holders) {
  for (const DenseLayout::Part& part : layout.parts()) {
    const uint64_t cells = CeilDivide(part.elements(), part.cell);
    const int slices = holders.slices(part.experts);
    const uint64_t slice = slices == 1
                               ? part.elements()
                               : CeilDivide(cells, static_cast<uint64_t>(slices)) * part.cell;
    if (unit_parts_.size() <= part.unit) unit_parts_.resize(part.unit + 1);
    unit_parts_[part.unit].push_back(static_cast<int>(parts_.size()));
    parts_.push_back({.begin = part.begin,
                      .end = part.end,
                      .unit = part.unit,
                      .compute = part.compute,
                      .experts = part.experts,
                      .frozen = part.frozen,
                      .slice = slice,
                      .slices = slices,
                      .slice_begin = slice_elements_});
    slice_elements_ += slice;
  }
}

absl::Span<const int> ShardLayout::unit_parts(int unit) const {
  if (static_cast<size_t>(unit) >= unit_parts_.size()) return {};
  return unit_parts_[unit];
}

int ShardLayout::PartOf(uint64_t flat) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), flat,
                                      [](uint64_t at, const Part& part) { return at < part.end; });
  return static_cast<int>(after - parts_.begin());
}

std::vector<ShardLayout::OwnedBlock> ShardLayout::OwnedBlocks(const DenseLayout& layout,
                                                              int holder) const {
  std::vector<OwnedBlock> owned;
  for (uint32_t id = 0; id < layout.blocks().size(); ++id) {
    const DenseLayout::Block& block = layout.blocks()[id];
    const Part& part = parts_[block.part];
    const uint64_t slice_begin =
        part.begin + static_cast<uint64_t>(SliceOf(part, holder)) * part.slice;
    const uint64_t begin = std::max(block.begin, slice_begin);
    const uint64_t end = std::min(block.end, slice_begin + part.slice);
    if (begin >= end) continue;
    OwnedBlock narrowed = {block, id, part.slice_begin + (begin - slice_begin)};
    narrowed.block.begin = begin;
    narrowed.block.end = end;
    narrowed.block.repeated = block.repeated || (!part.experts && holders_.Repeats(holder));
    narrowed.block.pieces.clear();
    uint64_t at = block.begin;
    for (DenseLayout::Piece piece : block.pieces) {
      const uint64_t piece_begin = at;
      at += piece.end - piece.begin;
      const uint64_t from = std::max(begin, piece_begin);
      const uint64_t to = std::min(end, at);
      if (from >= to) continue;
      piece.end = piece.begin + (to - piece_begin);
      piece.begin += from - piece_begin;
      narrowed.block.pieces.push_back(piece);
    }
    owned.push_back(std::move(narrowed));
  }
  return owned;
}

}  // namespace muster
