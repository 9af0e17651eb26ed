#ifndef MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_
#define MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/tensor/dtype.h"

namespace muster {

// The division of a DenseLayout's flat space among the ranks of a shard group. Every part is
// divided into equal slices, one for each rank, in order of rank. A slice consists of whole cells,
// so that each rank can sum its share of a norm. The last slices of a part may be padding, in part
// or as a whole. With one shard, the slices are the parts.
//
// A rank's slice space holds its slices one after another. A gathered part holds its slices in
// order of rank; its padding is at its end, so its tensors are contiguous there.
//
// For example, with 2 shards: parts of 6 and 3 elements in cells of 1 have slices of 3 and 2, and a
// slice space has 5. The last element of the second rank's is padding.
//
// A pure function of its arguments, the same on every rank. Immutable, so thread-safe.
class ShardLayout {
 public:
  struct Part {
    // Elements [begin, end) of the flat space, of one unit and of one compute type.
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t unit = 0;
    DType compute = DType::kF32;
    // Elements of each slice.
    uint64_t slice = 0;
    // The position of a rank's slice in the rank's slice space, the same for all ranks.
    uint64_t slice_begin = 0;

    uint64_t elements() const { return end - begin; }
  };

  // The elements of a block that one shard owns.
  struct OwnedBlock {
    // The block, narrowed to elements of one slice; never empty.
    DenseLayout::Block block;
    // The whole block's position in DenseLayout::blocks().
    uint32_t id = 0;
    // The position of its first element in the slice space.
    uint64_t slice_begin = 0;
  };

  // REQUIRES: shards >= 1.
  ShardLayout(const DenseLayout& layout, int shards);

  int shards() const { return shards_; }
  // Parts in order of `begin`.
  absl::Span<const Part> parts() const { return parts_; }
  // Returns the indices of the unit's parts.
  absl::Span<const int> unit_parts(int unit) const;
  // Returns the index of the part that has this element of the flat space.
  // REQUIRES: flat < the layout's elements.
  int PartOf(uint64_t flat) const;
  uint64_t slice_elements() const { return slice_elements_; }

  // Returns the blocks that a shard owns, in order. REQUIRES: 0 <= shard < shards().
  std::vector<OwnedBlock> OwnedBlocks(const DenseLayout& layout, int shard) const;

 private:
  const int shards_;
  std::vector<Part> parts_;
  std::vector<std::vector<int>> unit_parts_;
  uint64_t slice_elements_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_
