#include "common/partition/served_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/local_tensors.h"

namespace muster {
namespace {

// The most shares of all ranks together.
constexpr uint64_t kMostShares = uint64_t{1} << 20;

// A size of blocks that divides no tensor.
constexpr uint64_t kWholeTensors = uint64_t{1} << 42;

// Appends the blocks of a rank's layout that it owns, with their parts. The rank's first share is
// number `first_tensor`; what is not of experts belongs to the first expert rank.
void AppendOwned(const DenseLayout& layout, int expert_rank, int first_tensor,
                 std::vector<DenseLayout::Part>& parts, std::vector<DenseLayout::Block>& blocks) {
  constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t last_part = kNone;
  for (DenseLayout::Block block : layout.blocks()) {
    if (block.repeated || (expert_rank > 0 && !layout.parts()[block.part].experts)) continue;
    const uint64_t begin = blocks.empty() ? 0 : blocks.back().end;
    if (block.part != last_part) {
      last_part = block.part;
      parts.push_back(layout.parts()[block.part]);
      parts.back().begin = begin;
    }
    const uint64_t end = begin + block.elements();
    block.begin = begin;
    block.end = end;
    block.part = static_cast<uint32_t>(parts.size() - 1);
    for (DenseLayout::Piece& piece : block.pieces) piece.tensor += first_tensor;
    parts.back().end = end;
    blocks.push_back(std::move(block));
  }
}

// Returns whether a rank has the elements of a block.
bool Has(const ServedTensors& served, int rank, const DenseLayout::Block& block) {
  const size_t n = served.tensors.size() / served.ranks();
  const MeshPosition owner(served.mesh, static_cast<int>(OwnerOf(block, n)));
  const MeshPosition other = owner.Of(rank);
  if (served.layout.parts()[block.part].experts && owner.at(kExpertAxes) != other.at(kExpertAxes)) {
    return false;
  }
  const DenseLayout::Piece& piece = block.pieces[0];
  const TensorSpec& tensor = served.tensors[piece.tensor];
  if (owner.at(Axis::kPipeline) != other.at(Axis::kPipeline)) {
    const TensorSpec& share = served.tensors[rank * n + piece.tensor % n];
    if (tensor.stages == 1 || share.elements() == 0) return false;
  }
  const int first = owner.at(Axis::kTensor);
  const int here = other.at(Axis::kTensor);
  if (first == here) return true;
  for (const SharedElements& shared : tensor.shared) {
    if (shared.begin <= piece.begin && piece.begin < shared.end) {
      return first < here && here < first + shared.ranks;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckModelRanks(uint64_t tensor_ranks, uint64_t stages, uint64_t expert_ranks,
                             size_t tensors) {
  const auto possible = [](uint64_t ranks) { return ranks >= 1 && ranks <= kMostModelRanks; };
  const uint64_t ranks = tensor_ranks * stages * expert_ranks;
  if (possible(tensor_ranks) && possible(stages) && possible(expert_ranks) && possible(ranks) &&
      tensors * ranks <= kMostShares) {
    return absl::OkStatus();
  }
  const std::string experts =
      expert_ranks == 1 ? "" : absl::StrCat(" and ", expert_ranks, " expert ranks");
  return absl::InvalidArgumentError(absl::StrCat(
      tensor_ranks, " tensor ranks and ", stages, " pipeline stages", experts, " make ", ranks,
      " shares of each of ", tensors, " tensors: servers hold those of 1 to ", kMostModelRanks,
      " ranks, and at most ", kMostShares, " in all"));
}

absl::StatusOr<ServedTensors> ServeTensors(absl::Span<const TensorSpec> tensors,
                                           const ModelDivision& division,
                                           const DenseLayout::Options& options) {
  const Mesh mesh = division.mesh.Only(kServedAxes);
  MUSTER_RETURN_IF_ERROR(CheckModelRanks(mesh.size(Axis::kTensor), mesh.size(Axis::kPipeline),
                                         mesh.size(kExpertAxes), tensors.size()));
  const int ranks = mesh.world_size();
  if (ranks == 1) {
    MUSTER_ASSIGN_OR_RETURN(DenseLayout layout, DenseLayout::Create(tensors, options));
    return ServedTensors{mesh, {tensors.begin(), tensors.end()}, std::move(layout)};
  }
  std::vector<TensorSpec> shares;
  std::vector<DenseLayout::Part> parts;
  std::vector<DenseLayout::Block> blocks;
  for (int rank = 0; rank < ranks; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<TensorSpec> own, LocalTensors(tensors, division, rank));
    MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, DenseLayout::Create(own, options));
    AppendOwned(layout, mesh.Position(rank, kExpertAxes), static_cast<int>(shares.size()), parts,
                blocks);
    if (blocks.size() > DenseLayout::kMaxBlocks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "block_bytes is ", options.block_bytes, ", which divides the shares of ", ranks,
          " ranks into more than ", DenseLayout::kMaxBlocks, " blocks: raise block_bytes"));
    }
    shares.insert(shares.end(), std::make_move_iterator(own.begin()),
                  std::make_move_iterator(own.end()));
  }
  return ServedTensors{
      mesh, std::move(shares),
      DenseLayout::OfBlocks(std::move(parts), std::move(blocks), options.partitions)};
}

BlockPushers BlockPushers::Of(const ServedTensors& served, const DenseLayout::Block& block) {
  const auto owner = static_cast<int>(OwnerOf(block, served.tensors.size() / served.ranks()));
  const Axes axes = served.layout.parts()[block.part].experts ? kServedAxes : kPartAxes;
  return {.axes = axes, .position = served.mesh.Position(owner, axes)};
}

DenseLayout LayoutOfRank(const ServedTensors& served, int rank) {
  if (served.ranks() == 1) return served.layout;
  const size_t n = served.tensors.size() / served.ranks();
  const absl::Span<const TensorSpec> own = absl::MakeConstSpan(served.tensors).subspan(rank * n, n);
  // Only its blocks depend on the options, so it can be made as ServeTensors made it.
  const DenseLayout layout = *DenseLayout::Create(own, {.block_bytes = kWholeTensors});
  std::vector<DenseLayout::Block> blocks;
  for (DenseLayout::Block block : served.layout.blocks()) {
    if (!Has(served, rank, block)) continue;
    block.repeated = !BlockPushers::Of(served, block).Has(served.mesh, rank);
    // Elements that ranks have in common are at the same place in each one's share.
    for (DenseLayout::Piece& piece : block.pieces) piece.tensor %= static_cast<int>(n);
    const uint64_t elements = block.elements();
    const DenseLayout::Piece& first = block.pieces[0];
    // Another stage may have the tensor in another unit.
    block.unit = own[first.tensor].unit;
    block.begin = layout.tensor_offset(first.tensor) + first.begin;
    block.end = block.begin + elements;
    blocks.push_back(std::move(block));
  }
  std::sort(
      blocks.begin(), blocks.end(),
      [](const DenseLayout::Block& a, const DenseLayout::Block& b) { return a.begin < b.begin; });
  uint32_t part = 0;
  for (DenseLayout::Block& block : blocks) {
    while (layout.parts()[part].end <= block.begin) ++part;
    block.part = part;
  }
  return layout.WithBlocks(std::move(blocks), served.layout.partitions());
}

}  // namespace muster
