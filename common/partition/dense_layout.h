#ifndef MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_
#define MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// The server layout of a model's dense tensors: one flat f32 space, cut into blocks, dealt to partitions.
//
// Tensors are laid one after another in order of (unit, weight decay last to first, position in the list). The flat
// space of each (unit, weight_decay) group is cut into blocks of at most `block_bytes`, so that no block crosses a unit
// or an optimizer group. Blocks are dealt to partitions largest first, each to the partition with the fewest bytes (the
// lowest index among equals). A pure function of its arguments: workers and servers compute the same.
//
// Immutable after construction, so thread-safe.
class DenseLayout {
 public:
  struct Options {
    uint64_t block_bytes = 1 << 20;
    uint32_t partitions = 8;
  };

  // Elements [begin, end) of a tensor, row-major.
  struct Piece {
    int tensor = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  struct Block {
    // Elements [begin, end) of the flat space.
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t unit = 0;
    bool weight_decay = true;
    uint32_t partition = 0;
    // Position among its partition's blocks, which are in order of `begin`.
    uint32_t index_in_partition = 0;
    // The tensors' elements it holds, in flat order.
    std::vector<Piece> pieces;

    uint64_t elements() const { return end - begin; }
  };

  // InvalidArgument: a duplicate or empty name, a negative extent, block_bytes not a positive multiple of 4, or no
  // partition.
  static absl::StatusOr<DenseLayout> Create(absl::Span<const TensorSpec> tensors, Options options);

  uint64_t elements() const { return elements_; }
  // In order of `begin`.
  absl::Span<const Block> blocks() const { return blocks_; }
  // Ids (positions in blocks()) of a partition's blocks, in order.
  absl::Span<const uint32_t> partition_blocks(uint32_t partition) const {
    return partition_blocks_[partition];
  }
  uint32_t partitions() const { return partition_blocks_.size(); }
  // Where a tensor starts in the flat space; a tensor is contiguous there.
  uint64_t tensor_offset(int tensor) const { return tensor_offsets_[tensor]; }

 private:
  DenseLayout() = default;

  uint64_t elements_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::vector<uint32_t>> partition_blocks_;
  std::vector<uint64_t> tensor_offsets_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_
