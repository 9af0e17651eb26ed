#ifndef MUSTER_WORKER_STRATEGY_NORM_CELLS_H_
#define MUSTER_WORKER_STRATEGY_NORM_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"

namespace muster {

// The cells of a layout (DenseLayout), whose squared norms add up to those of blocks, by the shard
// that owns them. A shard's cells are in order of its blocks. Blocks that are `repeated` have none,
// so that over all tensor ranks and stages each element is counted once; those that move by signs
// have none either. Immutable.
class NormCells {
 public:
  // The cells of a block that one shard owns.
  struct BlockCells {
    // The block's position in DenseLayout::blocks().
    uint32_t id = 0;
    size_t count = 0;
  };

  NormCells(const DenseLayout& layout, const ShardLayout& shards);

  // Returns the cells of each of a shard's owned blocks, in order.
  absl::Span<const BlockCells> blocks(int shard) const { return blocks_[shard]; }
  // Returns the number of cells that a shard owns.
  size_t count(int shard) const { return counts_[shard]; }

  // Returns the unit of a block of the layout.
  uint32_t unit(size_t block) const { return units_[block]; }
  // Returns the squared norm of each block of the layout. `cells[s]` begins with the squared norms
  // of the cells of shard s.
  std::vector<double> AddUp(absl::Span<const absl::Span<const double>> cells) const;

 private:
  // The unit of each block of the layout.
  std::vector<uint32_t> units_;
  // The cells of each shard's blocks.
  std::vector<std::vector<BlockCells>> blocks_;
  std::vector<size_t> counts_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_NORM_CELLS_H_
