#ifndef MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_
#define MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/partition/cells.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// The servers' layout of a model's dense tensors: one flat f32 space, divided into blocks that are
// dealt to partitions.
//
// Tensors are laid one after another, those that are trained before those that are frozen, ordered
// by unit, within a unit by compute type (16 bits first), then by optimizer group (those that decay
// first, those that move by signs last, by rate), then by position in the list. A tied tensor adds
// nothing: it lies where its owner does. A unit's tensors of one compute type are a part, but those
// that several stages have come before and are a part of their own, and those that expert ranks
// divide come after and are one, too; so are those that are frozen. Each group's
// stretch of a part is divided into as few blocks of at most `block_bytes` as possible, of equal
// size except for the last, so no block crosses a part or a group. Tensors of matrices that move as
// a whole come after others with their rate and decay, and each of their matrices, or a share's
// part of it, is a block, whatever its size. Blocks are dealt to partitions
// largest first, each to the partition with the fewest bytes (the lowest index among equals), so
// two partitions differ by no more than the largest block.
//
// Shares of tensors (LocalTensors) are laid out in the same way. Elements that several tensor ranks
// or stages have are in blocks of their own, the same on all of these. On all but the lowest rank
// and the first stage these blocks are neither counted in norms nor written to checkpoints.
//
// Each part is divided into cells, over which squared norms are summed in f64: a cell ends at each
// multiple of `cell` elements from the part's begin, and at each end of a block. A block's squared
// norm is the sum over its cells in order, so a holder of whole cells can contribute their share.
//
// Everything that is trained is the start of the flat space (Trained): gradients, their sums and
// optimizer state have this extent, and frozen tensors change nothing about it but partitions.
//
// For example, with blocks of at most 16 bytes and 2 partitions: unit 0 has w (6 elements, decays)
// and b (2, does not), unit 1 has v (3, decays). The flat space is w b v; its blocks are [0,3)
// [3,6) [6,8) [8,11); partition 0 gets blocks 0, 3 and 1 gets blocks 1, 2.
//
// A pure function of its arguments: workers and servers compute the same. Costs O(tensors + blocks
// · log(blocks)), whatever the number of elements. Immutable after construction, so thread-safe.
class DenseLayout {
 public:
  // Limits that keep a schema from outside from making a server allocate without bound. At the
  // default block size this many blocks hold 1 TiB of parameters.
  static constexpr uint64_t kMaxBlocks = 1 << 20;
  static constexpr uint32_t kMaxPartitions = 1 << 16;

  struct Options {
    uint64_t block_bytes = 1 << 20;
    uint32_t partitions = 8;
  };

  // Elements [begin, end) of a tensor (an index into the list given to Create), row-major.
  struct Piece {
    int tensor = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // The tensors of one unit that have one compute type, that one stage alone has or several, and
  // that expert ranks divide or not.
  struct Part {
    // Elements [begin, end) of the flat space; never empty.
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t unit = 0;
    DType compute = DType::kF32;
    // True if expert ranks divide its tensors (TensorSpec::expert_ranks).
    bool experts = false;
    // True if its tensors are frozen (TensorSpec::frozen).
    bool frozen = false;
    // Elements of a cell, a power of two that depends only on the part's number of elements. Even
    // small parts have some tens of cells.
    uint64_t cell = 1;

    uint64_t elements() const { return end - begin; }
  };

  struct Block {
    // Elements [begin, end) of the flat space; never empty.
    uint64_t begin = 0;
    uint64_t end = 0;
    // Index into parts().
    uint32_t part = 0;
    uint32_t unit = 0;
    bool weight_decay = true;
    // TensorSpec::sign_rate of its tensors.
    float sign_rate = 0;
    // TensorSpec::rate, own_weight_decay and frozen of its tensors.
    float rate = 1;
    absl::optional<float> own_weight_decay;
    bool frozen = false;
    // Above 0: the block's elements are some or all of a matrix with these extents, which the
    // optimizer moves as a whole (TensorSpec::matrix_rows).
    int64_t rows = 0;
    int64_t columns = 0;
    // True if lower tensor ranks or the stage of the tensor's unit have its elements, too, so that
    // the rank does not push it.
    bool repeated = false;
    uint32_t partition = 0;
    // Position among its partition's blocks, which are in order of `begin`.
    uint32_t index_in_partition = 0;
    // The block's elements by tensor, in flat order; never a tied tensor.
    std::vector<Piece> pieces;

    uint64_t elements() const { return end - begin; }
    bool of_matrix() const { return rows > 0; }
    // Returns whether these are all elements of their matrix. REQUIRES: of_matrix().
    bool whole_matrix() const { return elements() == static_cast<uint64_t>(rows * columns); }
    // Returns whether the global norm counts the block's gradient here.
    bool in_norm() const { return !repeated && sign_rate == 0 && !frozen; }
  };

  // Computes a layout. InvalidArgument, with names and values: a duplicate or empty name, a
  // negative extent, more elements than 2^40, a tie to no tensor, to a tied one or to one of
  // another number of elements, block_bytes not a positive multiple of 4, no partition, or more
  // blocks or partitions than the limits above. Without tensors there are no blocks.
  static absl::StatusOr<DenseLayout> Create(absl::Span<const TensorSpec> tensors, Options options);

  uint64_t elements() const { return elements_; }
  // Returns the start of this layout that gradients have: without the parts and blocks of frozen
  // tensors, whose offsets are behind its end. Parts and blocks keep their indices. REQUIRES: it is
  // not a layout of OfBlocks.
  DenseLayout Trained() const;
  // Parts in order of `begin`.
  absl::Span<const Part> parts() const { return parts_; }
  // Returns how the elements of a block, or of a stretch of one, are divided into cells.
  Cells cells(const Block& block) const;
  // Blocks in order of `begin`; a block's id is its position here.
  absl::Span<const Block> blocks() const { return blocks_; }
  // Ids of a partition's blocks, in order. REQUIRES: partition < partitions().
  absl::Span<const uint32_t> partition_blocks(uint32_t partition) const {
    return partition_blocks_[partition];
  }
  uint32_t partitions() const { return partition_blocks_.size(); }
  // Returns a tensor's start in the flat space, where it is contiguous.
  uint64_t tensor_offset(int tensor) const { return tensor_offsets_[tensor]; }

  // For those who derive layouts of shares (served_layout.h). OfBlocks returns a layout of parts
  // and blocks, both in order, in which tensors have no offset, and deals the blocks to partitions.
  // WithBlocks returns this layout with its elements in other blocks, in order, which have their
  // partition and their index there.
  static DenseLayout OfBlocks(std::vector<Part> parts, std::vector<Block> blocks,
                              uint32_t partitions);
  DenseLayout WithBlocks(std::vector<Block> blocks, uint32_t partitions) const;

 private:
  DenseLayout() = default;

  // Elements of one group that the same tensor ranks have.
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
    // The number of these ranks, and whether this is not the lowest of them or of the stages.
    int ranks = 1;
    bool repeated = false;
  };

  // Fills everything except the partitions.
  void Place(absl::Span<const TensorSpec> tensors, uint64_t max_block_elements);
  // Returns the stretches of a group of tensors, in order.
  std::vector<Stretch> StretchesOf(absl::Span<const TensorSpec> tensors,
                                   absl::Span<const int> group) const;
  // Makes blocks of the last part: divides a stretch of the group evenly, or by matrices.
  void AddStretch(absl::Span<const TensorSpec> tensors, absl::Span<const int> group,
                  const Stretch& stretch, uint64_t max_block_elements);
  // Divides a stretch of the group into blocks of the last part.
  void AddBlocks(absl::Span<const TensorSpec> tensors, absl::Span<const int> group,
                 const Stretch& stretch, uint64_t max_block_elements);
  // Gives each block its partition.
  void Deal(uint32_t partitions);

  uint64_t elements_ = 0;
  std::vector<Part> parts_;
  std::vector<Block> blocks_;
  std::vector<std::vector<uint32_t>> partition_blocks_;
  std::vector<uint64_t> tensor_offsets_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_DENSE_LAYOUT_H_
