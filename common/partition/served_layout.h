#ifndef MUSTER_COMMON_PARTITION_SERVED_LAYOUT_H_
#define MUSTER_COMMON_PARTITION_SERVED_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// The dense tensors of a job as parameter servers hold them, and as one of the ranks that divide
// the model among them sees them. These functions are pure: workers and servers compute the same.
//
// The layout of several ranks is the layouts of their shares one after another, without the blocks
// that a lower tensor or expert rank, or the stage of the tensor's own unit, has, too. So each
// element is in one block, and each block belongs to one rank, its owner. The other ranks that have
// a block's elements have all of them, and pull the block. Its owner's slots push it; and so do
// those of other expert ranks that have it, each of which has a part of the gradient
// (BlockPushers).
//
// For example, 2 tensor ranks divide a matrix of 4 rows and have a bias of 2 in common. Rank 0 owns
// the blocks of rows 0 and 1 and of the bias; rank 1 owns that of rows 2 and 3, and pulls the bias,
// too. With 2 stages whose head is tied to the embedding, rank 0 owns the embedding,
// and rank 1, which has the head, pulls it, too. With 2 expert ranks and 4 experts, rank 0 owns
// experts 0 and 1 and the router; rank 1 owns experts 2 and 3, and pulls and pushes the router,
// too.
struct ServedTensors {
  // The mesh of the ranks, along kServedAxes.
  Mesh mesh;
  // The shares of rank 0, then those of rank 1, and so on (LocalTensors): of n tensors, rank r's
  // share of tensor i is number r · n + i. Of a single rank, the whole tensors.
  std::vector<TensorSpec> tensors;
  // Pieces of its blocks name `tensors`. Tensors have no offset in it unless there is one rank.
  DenseLayout layout;

  int ranks() const { return mesh.world_size(); }
};

// The most ranks that may divide a model on servers.
inline constexpr int kMostModelRanks = 1024;

// Checks the number of ranks that divide a model of so many tensors, and with it the number of
// their shares: a schema from outside must not make a server allocate without bound.
// InvalidArgument names the numbers and their limits.
absl::Status CheckModelRanks(uint64_t tensor_ranks, uint64_t stages, uint64_t expert_ranks,
                             size_t tensors);

// Returns the tensors as servers hold them for ranks that divide the model so. InvalidArgument: as
// CheckModelRanks, LocalTensors and DenseLayout::Create say.
absl::StatusOr<ServedTensors> ServeTensors(absl::Span<const TensorSpec> tensors,
                                           const ModelDivision& division,
                                           const DenseLayout::Options& options);

// Returns the rank that owns a block of ServedTensors::layout, of `tensors_of_rank` shares of each
// rank.
inline uint32_t OwnerOf(const DenseLayout::Block& block, size_t tensors_of_rank) {
  return static_cast<uint32_t>(block.pieces[0].tensor / tensors_of_rank);
}

// The ranks that push a block of ServedTensors::layout.
struct BlockPushers {
  // Returns those of one of its blocks.
  static BlockPushers Of(const ServedTensors& served, const DenseLayout::Block& block);

  // Returns those of a frozen block, which has none.
  static BlockPushers Nobody() { return {.axes = kPartAxes, .position = -1}; }
  bool nobody() const { return position < 0; }

  // Returns whether a rank of the job's mesh, or of that of the ranks that divide the model, is one
  // of them.
  bool Has(const Mesh& mesh, int rank) const { return mesh.Position(rank, axes) == position; }

  // They are those at this position along these axes: kPartAxes, or of a block of experts, which no
  // other expert rank has, kServedAxes.
  Axes axes = kPartAxes;
  int position = 0;
};

// Returns the axes along which a job's ranks that push a block of the part differ. Each pushes a
// part of the gradient; a rank's position along these is its turn.
inline Axes AxesOfPushers(const DenseLayout::Part& part) {
  return part.experts ? kGradientAxes.Without(kExpertAxes) : kGradientAxes;
}

// Returns the layout of a rank's shares, in order of the model's tensors, in the blocks in which
// servers hold them. Blocks keep their partition and their index there; those that the rank does
// not push are `repeated`.
DenseLayout LayoutOfRank(const ServedTensors& served, int rank);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SERVED_LAYOUT_H_
