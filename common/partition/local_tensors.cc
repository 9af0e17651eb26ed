#include "common/partition/local_tensors.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/partition/rectangle.h"

namespace muster {
namespace {

uint64_t Elements(const Rectangle& rectangle) {
  uint64_t n = 1;
  for (const int64_t extent : rectangle.extent) n *= static_cast<uint64_t>(extent);
  return n;
}

Rectangle Whole(const std::vector<int64_t>& shape) {
  return {.start = std::vector<int64_t>(shape.size(), 0), .extent = shape};
}

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the indices of a section, counted from its begin, that a rank has.
absl::StatusOr<Interval> ShareOf(const TensorSpec& tensor, const Placement::Section& section,
                                 int ranks, int rank) {
  const int64_t units = section.units;
  if (units < 1 || section.extent % units != 0 || (units % ranks != 0 && ranks % units != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", tensor.name, " has ", units, " units of ", section.extent,
                     " rows or columns, which ", ranks,
                     " tensor ranks cannot divide evenly: one number must divide the other"));
  }
  const int64_t unit = section.extent / units;
  const int64_t first = rank * units / ranks;
  const int64_t count = std::max<int64_t>(1, units / ranks);
  return Interval{first * unit, (first + count) * unit};
}

// Appends elements to those that other ranks have, too.
void AddShared(const SharedElements& elements, std::vector<SharedElements>& shared) {
  if (elements.begin == elements.end || elements.ranks == 1) return;
  if (!shared.empty() && shared.back().end == elements.begin &&
      shared.back().ranks == elements.ranks && shared.back().first == elements.first) {
    shared.back().end = elements.end;
    return;
  }
  shared.push_back(elements);
}

// Leaves the share of an expert rank, of sections whose units the ranks divide evenly.
absl::Status TakeExperts(int ranks, int rank, TensorSpec& tensor) {
  const Placement& placement = tensor.placement;
  const int dimension = placement.dimension;
  tensor.global_shape = tensor.shape;
  tensor.shape[dimension] = 0;
  tensor.expert_ranks = ranks;
  int64_t begin = 0;
  for (const Placement::Section& section : placement.sections) {
    if (section.units % ranks != 0) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " is of ",
                                                     section.units, " experts, which ", ranks,
                                                     " expert ranks cannot divide evenly"));
    }
    Rectangle rectangle = Whole(tensor.global_shape);
    rectangle.extent[dimension] = section.extent / ranks;
    rectangle.start[dimension] = begin + rank * rectangle.extent[dimension];
    tensor.shape[dimension] += rectangle.extent[dimension];
    tensor.rectangles.push_back(std::move(rectangle));
    begin += section.extent;
  }
  return absl::OkStatus();
}

absl::Status TakeShare(int ranks, int rank, TensorSpec& tensor) {
  const Placement& placement = tensor.placement;
  if (placement.kind == Placement::Kind::kReplicate ||
      placement.kind == Placement::Kind::kExperts) {
    AddShared({0, static_cast<uint64_t>(tensor.elements()), ranks, rank == 0}, tensor.shared);
    return absl::OkStatus();
  }
  if (placement.kind == Placement::Kind::kFirst && rank == 0) return absl::OkStatus();
  tensor.global_shape = tensor.shape;
  const int dimension = placement.dimension;
  tensor.shape[dimension] = 0;
  if (placement.kind == Placement::Kind::kFirst) return absl::OkStatus();
  int64_t section_begin = 0;
  uint64_t first = 0;
  for (const Placement::Section& section : placement.sections) {
    const absl::StatusOr<Interval> share = ShareOf(tensor, section, ranks, rank);
    if (!share.ok()) return share.status();
    Rectangle rectangle = Whole(tensor.global_shape);
    rectangle.start[dimension] = section_begin + share->begin;
    rectangle.extent[dimension] = share->end - share->begin;
    tensor.shape[dimension] += rectangle.extent[dimension];
    const uint64_t last = first + Elements(rectangle);
    const int sharers = std::max<int>(1, ranks / static_cast<int>(section.units));
    AddShared({first, last, sharers, rank % sharers == 0}, tensor.shared);
    first = last;
    tensor.rectangles.push_back(std::move(rectangle));
    section_begin += section.extent;
  }
  return absl::OkStatus();
}

// Returns whether the rank's stage has nothing of the tensor.
bool IsEmpty(const TensorSpec& tensor) { return !tensor.global_shape.empty(); }

void MakeEmpty(TensorSpec& tensor) {
  tensor.global_shape = tensor.shape;
  tensor.shape.at(0) = 0;
  tensor.tied_to.clear();
}

// Leaves the tensors that a stage has.
void TakeStage(const ModelDivision& division, int stage, std::vector<TensorSpec>& tensors) {
  absl::flat_hash_map<std::string, size_t> owners;
  // The stages that have each tensor with storage of its own, and the first unit of this stage that
  // has it or a tensor that is tied to it.
  std::vector<std::set<int>> stages(tensors.size());
  std::vector<absl::optional<uint32_t>> units(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) owners[tensors[i].name] = i;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    // Layouts refuse a tie to nothing.
    const auto found = owners.find(tensor.tied_to);
    const size_t owner = found == owners.end() ? i : found->second;
    const int has_it = division.StageOf(static_cast<int>(tensor.unit));
    stages[owner].insert(has_it);
    if (has_it == stage) {
      units[owner] = std::min(units[owner].value_or(tensor.unit), tensor.unit);
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorSpec& tensor = tensors[i];
    const int of_unit = division.StageOf(static_cast<int>(tensor.unit));
    if (of_unit != stage && !units[i].has_value()) {
      MakeEmpty(tensor);
    } else if (tensor.tied_to.empty()) {
      tensor.stages = static_cast<int>(stages[i].size());
      tensor.first_stage = of_unit == stage;
      if (!tensor.first_stage) tensor.unit = *units[i];
    }
  }
}

}  // namespace

int ModelDivision::StageOf(int unit) const {
  if (stages() == 1) return 0;
  int virtual_stage = 0;
  for (int end = virtual_stage_units[0];
       end <= unit && virtual_stage + 1 < static_cast<int>(virtual_stage_units.size());) {
    end += virtual_stage_units[++virtual_stage];
  }
  return virtual_stage % stages();
}

absl::StatusOr<std::vector<TensorSpec>> LocalTensors(absl::Span<const TensorSpec> tensors,
                                                     const ModelDivision& division, int rank) {
  std::vector<TensorSpec> local(tensors.begin(), tensors.end());
  const MeshPosition position = {division.mesh, rank};
  if (division.stages() > 1) TakeStage(division, position.at(Axis::kPipeline), local);
  const int ranks = position.size(Axis::kTensor);
  const int expert_ranks = position.size(kExpertAxes);
  for (TensorSpec& tensor : local) {
    if (IsEmpty(tensor)) continue;
    absl::Status status;
    if (expert_ranks > 1 && tensor.placement.kind == Placement::Kind::kExperts) {
      status = TakeExperts(expert_ranks, position.at(kExpertAxes), tensor);
    }
    if (ranks > 1) status.Update(TakeShare(ranks, position.at(Axis::kTensor), tensor));
    if (!status.ok()) return status;
  }
  return local;
}

absl::Span<const SharedElements> PartialElements(const TensorSpec& share, bool divides_tokens) {
  const bool computed_alike =
      !divides_tokens && (share.placement.kind == Placement::Kind::kReplicate ||
                          share.placement.kind == Placement::Kind::kExperts);
  // The owner of the storage has the gradient of a tied tensor.
  if (computed_alike || !share.tied_to.empty() || share.frozen) return {};
  return share.shared;
}

void ForEachRectangle(
    const TensorSpec& tensor, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(const Rectangle& rectangle, uint64_t begin, uint64_t end)> visitor) {
  if (begin >= end) return;
  if (tensor.rectangles.empty()) {
    visitor(Whole(tensor.shape), begin, end);
    return;
  }
  uint64_t first = 0;
  for (const Rectangle& rectangle : tensor.rectangles) {
    const uint64_t last = first + Elements(rectangle);
    if (std::max(begin, first) < std::min(end, last)) {
      visitor(rectangle, std::max(begin, first) - first, std::min(end, last) - first);
    }
    first = last;
  }
}

void ForEachGlobal(
    const TensorSpec& tensor, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t first, uint64_t global, uint64_t count)> visitor) {
  uint64_t first = begin;
  ForEachRectangle(tensor, begin, end, [&](const Rectangle& rectangle, uint64_t from, uint64_t to) {
    ForEachContiguous(GlobalShape(tensor), rectangle.start, rectangle.extent, from, to,
                      [&](uint64_t, uint64_t global, uint64_t count) {
                        visitor(first, global, count);
                        first += count;
                      });
  });
}

}  // namespace muster
