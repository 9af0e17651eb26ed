#ifndef MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_
#define MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/dense_layout.h"
#include "common/tensor/dtype.h"

namespace muster {

// The ranks that hold one copy of a rank's part of the model: its ranks along kHolderAxes. They are
// named by their positions there, and called holders.
struct Holders {
  Holders(int shards = 1, int experts = 1) : shards(shards), experts(experts) {}  // NOLINT
  explicit Holders(const Mesh& mesh) : Holders(mesh.size(kShardAxes), mesh.size(kExpertAxes)) {}

  int count() const { return std::max(shards, experts); }
  // Returns the number of slices of a part, and a holder's; parts are of experts, or not.
  int slices(bool of_experts) const { return of_experts ? count() / experts : shards; }
  int SliceOf(bool of_experts, int holder) const {
    return of_experts ? holder / experts : holder % shards;
  }
  // Returns whether a lower holder has the holder's slices of parts that are not of experts.
  bool Repeats(int holder) const { return holder >= shards; }

  // The number of ranks that divide what is not of experts, and of those that divide the experts.
  // One divides the other.
  int shards = 1;
  int experts = 1;
};

// The division of a DenseLayout's flat space among holders. Every part is divided into equal
// slices, one for each rank of the part's shard group, in order of rank. A slice consists of whole
// cells, so that each rank can sum its share of a norm. The last slices of a part may be padding,
// in part or as a whole. With one slice, the slice is the part.
//
// A part of experts has the experts of one expert rank; all of these have a part of the same size
// there. So 4 holders with 2 expert ranks are 4 shards of everything else, and of the first half of
// the experts, holders 0 and 2 have a slice each, of the second half holders 1 and 3. With 1 shard,
// 2 holders have all that is not of experts each, and one half of the experts.
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
    bool experts = false;
    bool frozen = false;
    // Elements of each slice, and the number of slices.
    uint64_t slice = 0;
    int slices = 1;
    // The position of a rank's slice in the rank's slice space, the same for all ranks.
    uint64_t slice_begin = 0;

    uint64_t elements() const { return end - begin; }
  };

  // The elements of a block that one holder has.
  struct OwnedBlock {
    // The block, narrowed to elements of one slice; never empty. Also `repeated` if a lower holder
    // has it.
    DenseLayout::Block block;
    // The whole block's position in DenseLayout::blocks().
    uint32_t id = 0;
    // The position of its first element in the slice space.
    uint64_t slice_begin = 0;
  };

  ShardLayout(const DenseLayout& layout, Holders holders);

  const Holders& holders() const { return holders_; }
  // Parts in order of `begin`.
  absl::Span<const Part> parts() const { return parts_; }
  // Returns the indices of the unit's parts.
  absl::Span<const int> unit_parts(int unit) const;
  // Returns the index of the part that has this element of the flat space.
  // REQUIRES: flat < the layout's elements.
  int PartOf(uint64_t flat) const;
  uint64_t slice_elements() const { return slice_elements_; }

  // Returns the blocks that a holder has, in order. REQUIRES: 0 <= holder < holders().count().
  std::vector<OwnedBlock> OwnedBlocks(const DenseLayout& layout, int holder) const;
  // Returns the number of a holder's slice of a part.
  int SliceOf(const Part& part, int holder) const { return holders_.SliceOf(part.experts, holder); }

 private:
  const Holders holders_;
  std::vector<Part> parts_;
  std::vector<std::vector<int>> unit_parts_;
  uint64_t slice_elements_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SHARD_LAYOUT_H_
