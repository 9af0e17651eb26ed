#ifndef MUSTER_WORKER_STRATEGY_NORM_CELLS_H_
#define MUSTER_WORKER_STRATEGY_NORM_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"

namespace muster {

// The cells of a layout (DenseLayout), whose squared norms add up to those of blocks, by the holder
// that has them. A holder's cells are in order of its blocks. Blocks that are `repeated`, here or
// on a lower holder, have none, so that over all tensor ranks and stages each element is counted
// once; those that move by signs have none either. Immutable.
class NormCells {
 public:
  // The cells of a block that one holder has.
  struct BlockCells {
    // The block's position in DenseLayout::blocks().
    uint32_t id = 0;
    size_t count = 0;
  };

  NormCells(const DenseLayout& layout, const ShardLayout& shards);

  // Returns the cells of each of a holder's blocks, in order.
  absl::Span<const BlockCells> blocks(int holder) const { return blocks_[holder]; }
  // Returns the number of a holder's cells.
  size_t count(int holder) const { return counts_[holder]; }

  // Returns the unit of a block of the layout.
  uint32_t unit(size_t block) const { return units_[block]; }
  // Returns the squared norm of each block of the layout; of a part of experts, the sum over those
  // of all expert ranks. `cells[h]` begins with the squared norms of the cells of holder h.
  std::vector<double> AddUp(absl::Span<const absl::Span<const double>> cells) const;

 private:
  // The unit of each block of the layout.
  std::vector<uint32_t> units_;
  // The cells of each holder's blocks.
  std::vector<std::vector<BlockCells>> blocks_;
  std::vector<size_t> counts_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_NORM_CELLS_H_
