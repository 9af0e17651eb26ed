#include "common/partition/dense_layout.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/partition/matrices.h"

namespace muster {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 40;
// Blocks start at multiples of this within their group if the limit allows: a cache line of f32.
constexpr uint64_t kAlignElements = 16;
// A part with enough elements has at least kFewCells cells. A cell has at most kMaxCellElements.
constexpr uint64_t kFewCells = 64;
constexpr uint64_t kMaxCellElements = 1024;

uint64_t CellElements(uint64_t part_elements) {
  return std::clamp<uint64_t>(std::bit_floor(part_elements / kFewCells), 1, kMaxCellElements);
}

absl::StatusOr<uint64_t> CheckedElements(const TensorSpec& tensor) {
  bool empty = false;
  for (int64_t extent : tensor.shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has shape [",
                                                     absl::StrJoin(tensor.shape, ", "),
                                                     "]: extents must not be negative"));
    }
    if (extent == 0) empty = true;
  }
  if (empty) return 0;
  uint64_t elements = 1;
  for (int64_t extent : tensor.shape) {
    if (static_cast<uint64_t>(extent) > kMaxElements / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " has shape [", absl::StrJoin(tensor.shape, ", "),
                       "]: more than 2^40 elements, the most that one job may have"));
    }
    elements *= static_cast<uint64_t>(extent);
  }
  return elements;
}

absl::Status CheckOptions(const DenseLayout::Options& options) {
  if (options.block_bytes == 0 || options.block_bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("block_bytes is ", options.block_bytes,
                                                   ": it must be a positive multiple of 4"));
  }
  if (options.partitions == 0 || options.partitions > DenseLayout::kMaxPartitions) {
    return absl::InvalidArgumentError(absl::StrCat("partitions is ", options.partitions,
                                                   ": it must lie in [1, ",
                                                   DenseLayout::kMaxPartitions, "]"));
  }
  return absl::OkStatus();
}

// Checks everything about the tensors except the number of blocks.
absl::Status CheckTensors(absl::Span<const TensorSpec> tensors) {
  absl::flat_hash_map<absl::string_view, size_t> by_name;
  std::vector<uint64_t> elements(tensors.size());
  uint64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (tensor.name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", i, " of ", tensors.size(),
                                                     " has no name: names key checkpoints"));
    }
    if (const auto [it, added] = by_name.emplace(tensor.name, i); !added) {
      return absl::InvalidArgumentError(absl::StrCat("tensors ", it->second, " and ", i,
                                                     " are both named ", tensor.name,
                                                     ": names must be unique in a job"));
    }
    MUSTER_ASSIGN_OR_RETURN(elements[i], CheckedElements(tensor));
    if (!tensor.tied_to.empty()) continue;
    total += elements[i];
    if (total > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrCat("the tensors up to ", tensor.name, " have ",
                                                     total,
                                                     " elements: a job may have at most 2^40"));
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (tensor.tied_to.empty()) continue;
    const auto owner = by_name.find(tensor.tied_to);
    if (owner == by_name.end() || !tensors[owner->second].tied_to.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " is tied to ", tensor.tied_to, ", which is ",
                       owner == by_name.end() ? "not in the list" : "tied itself",
                       ": tie it to a tensor with storage of its own"));
    }
    if (elements[owner->second] != elements[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name, " has ", elements[i], " elements but is tied to ", tensor.tied_to,
          ", which has ", elements[owner->second], ": tied tensors must be of equal size"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DenseLayout> DenseLayout::Create(absl::Span<const TensorSpec> tensors,
                                                Options options) {
  MUSTER_RETURN_IF_ERROR(CheckOptions(options));
  MUSTER_RETURN_IF_ERROR(CheckTensors(tensors));

  // Each tensor adds at most one block to its share of full blocks, and each of its shared elements
  // two, so this bounds the allocation below.
  const uint64_t max_block_elements = options.block_bytes / sizeof(float);
  uint64_t blocks = 0;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty()) {
      blocks += CeilDivide(static_cast<uint64_t>(tensor.elements()), max_block_elements) +
                2 * tensor.shared.size() + tensor.matrix_rows.size();
    }
  }
  if (blocks > kMaxBlocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block_bytes is ", options.block_bytes, ", which divides the dense tensors into up to ",
        blocks, " blocks: at most ", kMaxBlocks, " are allowed, so raise block_bytes"));
  }

  DenseLayout layout;
  layout.Place(tensors, max_block_elements);
  layout.Deal(options.partitions);
  return layout;
}

void DenseLayout::Place(absl::Span<const TensorSpec> tensors, uint64_t max_block_elements) {
  std::vector<int> order;
  absl::flat_hash_map<absl::string_view, int> owners;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].tied_to.empty()) continue;
    order.push_back(static_cast<int>(i));
    owners.emplace(tensors[i].name, static_cast<int>(i));
  }
  const auto part = [&](int tensor) {
    const DType compute = tensors[tensor].compute;
    return std::tuple(tensors[tensor].frozen, tensors[tensor].unit, compute == DType::kF32, compute,
                      tensors[tensor].stages == 1, tensors[tensor].expert_ranks > 1);
  };
  const auto group = [&](int tensor) {
    const TensorSpec& spec = tensors[tensor];
    if (spec.frozen) {
      return std::tuple(part(tensor), 0.0f, false, 1.0f, absl::optional<float>(), false);
    }
    return std::tuple(part(tensor), spec.sign_rate, !spec.weight_decay, spec.rate,
                      spec.own_weight_decay, !spec.matrix_rows.empty());
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return group(a) < group(b); });

  tensor_offsets_.resize(tensors.size());
  absl::optional<decltype(part(0))> open_part;
  for (size_t first = 0; first < order.size();) {
    const uint64_t group_begin = elements_;
    size_t last = first;
    for (; last < order.size() && group(order[last]) == group(order[first]); ++last) {
      tensor_offsets_[order[last]] = elements_;
      elements_ += static_cast<uint64_t>(tensors[order[last]].elements());
    }

    if (elements_ > group_begin) {
      const TensorSpec& one = tensors[order[first]];
      if (open_part != part(order[first])) {
        open_part = part(order[first]);
        parts_.push_back({.begin = group_begin,
                          .end = group_begin,
                          .unit = one.unit,
                          .compute = one.compute,
                          .experts = one.expert_ranks > 1,
                          .frozen = one.frozen});
      }
      parts_.back().end = elements_;
      const absl::Span<const int> in_group = absl::MakeSpan(order).subspan(first, last - first);
      for (const Stretch& stretch : StretchesOf(tensors, in_group)) {
        AddStretch(tensors, in_group, stretch, max_block_elements);
      }
    }
    first = last;
  }

  for (Part& part : parts_) part.cell = CellElements(part.elements());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].tied_to.empty()) {
      tensor_offsets_[i] = tensor_offsets_[owners.at(tensors[i].tied_to)];
    }
  }
}

std::vector<DenseLayout::Stretch> DenseLayout::StretchesOf(absl::Span<const TensorSpec> tensors,
                                                           absl::Span<const int> group) const {
  std::vector<Stretch> stretches;
  const auto append = [&](const Stretch& next) {
    if (next.begin == next.end) return;
    if (!stretches.empty() && stretches.back().ranks == next.ranks &&
        stretches.back().repeated == next.repeated) {
      stretches.back().end = next.end;
    } else {
      stretches.push_back(next);
    }
  };
  for (const int tensor : group) {
    const uint64_t offset = tensor_offsets_[tensor];
    const bool repeated = !tensors[tensor].first_stage;
    uint64_t done = 0;
    for (const SharedElements& shared : tensors[tensor].shared) {
      append({offset + done, offset + shared.begin, 1, repeated});
      append({offset + shared.begin, offset + shared.end, shared.ranks, repeated || !shared.first});
      done = shared.end;
    }
    append(
        {offset + done, offset + static_cast<uint64_t>(tensors[tensor].elements()), 1, repeated});
  }
  return stretches;
}

void DenseLayout::AddStretch(absl::Span<const TensorSpec> tensors, absl::Span<const int> group,
                             const Stretch& stretch, uint64_t max_block_elements) {
  if (tensors[group[0]].matrix_rows.empty()) {
    AddBlocks(tensors, group, stretch, max_block_elements);
    return;
  }
  for (const int tensor : group) {
    for (const MatrixShare& matrix : MatrixShares(tensors[tensor])) {
      Stretch share = stretch;
      share.begin = std::max(stretch.begin, tensor_offsets_[tensor] + matrix.begin);
      share.end = std::min(stretch.end, tensor_offsets_[tensor] + matrix.end);
      if (share.begin >= share.end) continue;
      AddBlocks(tensors, {tensor}, share, share.end - share.begin);
      blocks_.back().rows = matrix.rows;
      blocks_.back().columns = matrix.columns;
    }
  }
}

void DenseLayout::AddBlocks(absl::Span<const TensorSpec> tensors, absl::Span<const int> group,
                            const Stretch& stretch, uint64_t max_block_elements) {
  const uint64_t elements = stretch.end - stretch.begin;
  const uint64_t even = CeilDivide(elements, CeilDivide(elements, max_block_elements));
  const uint64_t aligned = RoundUp(even, kAlignElements);
  const uint64_t step = aligned <= max_block_elements ? aligned : even;
  size_t next = 0;
  for (uint64_t begin = stretch.begin; begin < stretch.end; begin += step) {
    Block block;
    block.begin = begin;
    block.end = std::min(begin + step, stretch.end);
    block.part = static_cast<uint32_t>(parts_.size() - 1);
    const TensorSpec& one = tensors[group[next]];
    block.unit = one.unit;
    block.weight_decay = one.weight_decay;
    block.sign_rate = one.sign_rate;
    block.rate = one.rate;
    block.own_weight_decay = one.own_weight_decay;
    block.frozen = one.frozen;
    block.repeated = stretch.repeated;
    while (true) {
      const int tensor = group[next];
      const uint64_t offset = tensor_offsets_[tensor];
      const uint64_t end = offset + static_cast<uint64_t>(tensors[tensor].elements());
      const uint64_t from = std::max(block.begin, offset);
      const uint64_t to = std::min(block.end, end);
      if (from < to) block.pieces.push_back({tensor, from - offset, to - offset});
      if (end >= block.end) break;  // The next block may go on with this tensor.
      ++next;
    }
    blocks_.push_back(std::move(block));
  }
}

DenseLayout DenseLayout::OfBlocks(std::vector<Part> parts, std::vector<Block> blocks,
                                  uint32_t partitions) {
  DenseLayout layout;
  layout.elements_ = blocks.empty() ? 0 : blocks.back().end;
  layout.parts_ = std::move(parts);
  layout.blocks_ = std::move(blocks);
  layout.Deal(partitions);
  return layout;
}

DenseLayout DenseLayout::WithBlocks(std::vector<Block> blocks, uint32_t partitions) const {
  DenseLayout layout = *this;
  layout.blocks_ = std::move(blocks);
  layout.partition_blocks_.assign(partitions, {});
  for (uint32_t id = 0; id < layout.blocks_.size(); ++id) {
    layout.partition_blocks_[layout.blocks_[id].partition].push_back(id);
  }
  return layout;
}

DenseLayout DenseLayout::Trained() const {
  DenseLayout layout = *this;
  const auto frozen = [](const auto& extent) { return extent.frozen; };
  layout.parts_.erase(std::find_if(layout.parts_.begin(), layout.parts_.end(), frozen),
                      layout.parts_.end());
  layout.blocks_.erase(std::find_if(layout.blocks_.begin(), layout.blocks_.end(), frozen),
                       layout.blocks_.end());
  layout.elements_ = layout.parts_.empty() ? 0 : layout.parts_.back().end;
  for (std::vector<uint32_t>& ids : layout.partition_blocks_) {
    ids.erase(std::lower_bound(ids.begin(), ids.end(), layout.blocks_.size()), ids.end());
  }
  return layout;
}

Cells DenseLayout::cells(const Block& block) const {
  const Part& part = parts_[block.part];
  return {part.cell - (block.begin - part.begin) % part.cell, part.cell};
}

void DenseLayout::Deal(uint32_t partitions) {
  std::vector<uint32_t> order(blocks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return blocks_[a].elements() > blocks_[b].elements();
  });

  // (elements so far, partition), least first.
  using Load = std::pair<uint64_t, uint32_t>;
  std::vector<Load> loads(partitions);
  for (uint32_t p = 0; p < partitions; ++p) loads[p] = {0, p};
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least(std::greater<>(),
                                                                     std::move(loads));
  for (uint32_t id : order) {
    const auto [elements, partition] = least.top();
    least.pop();
    blocks_[id].partition = partition;
    least.push({elements + blocks_[id].elements(), partition});
  }

  partition_blocks_.resize(partitions);
  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    std::vector<uint32_t>& ids = partition_blocks_[blocks_[id].partition];
    blocks_[id].index_in_partition = static_cast<uint32_t>(ids.size());
    ids.push_back(id);
  }
}

}  // namespace muster
