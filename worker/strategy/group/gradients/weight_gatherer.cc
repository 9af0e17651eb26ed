#include "worker/strategy/group/gradients/weight_gatherer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"

namespace muster {

namespace {

// Returns the part that has the tensor. REQUIRES: the tensor has elements.
const ShardLayout::Part& PartOf(const ShardedTensors& sharded, size_t tensor) {
  const uint64_t begin = sharded.layout.tensor_offset(static_cast<int>(tensor));
  return sharded.shards.parts()[sharded.shards.PartOf(begin)];
}

absl::Status CheckTypes(const ShardedTensors& sharded) {
  for (size_t i = 0; i < sharded.tensors.size(); ++i) {
    const TensorSpec& tensor = sharded.tensors[i];
    if (tensor.elements() == 0) continue;
    const DType held = PartOf(sharded, i).compute;
    if (held == DType::kF32 || held == tensor.compute) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", tensor.name, " is read in ", Name(tensor.compute), ", but it is tied to ",
        tensor.tied_to, ", which is held in ", Name(held), "; both must be read in one type"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightGatherer>> WeightGatherer::Create(
    Communicator& shard_group, const ShardedTensors& sharded,
    const WeightGathererOptions& options) {
  MUSTER_RETURN_IF_ERROR(CheckTypes(sharded));
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<UnitMemory> memory,
      UnitMemory::Create(shard_group, sharded, UnitPlaces::Content::kWeights,
                         UnitPlaces(sharded.shards, sharded.tensors, options.holding,
                                    UnitPlaces::Content::kWeights, options.kept_bytes)));
  return std::unique_ptr<WeightGatherer>(
      new WeightGatherer(shard_group, sharded, options, std::move(memory)));
}

WeightGatherer::WeightGatherer(Communicator& shard_group, const ShardedTensors& sharded,
                               const WeightGathererOptions& options,
                               std::unique_ptr<UnitMemory> memory)
    : shard_group_(shard_group),
      sharded_(sharded),
      options_(options),
      memory_(std::move(memory)),
      values_(sharded.tensors.size()),
      rounded_(sharded.tensors.size()),
      works_(sharded.shards.parts().size()),
      frozen_in_place_(sharded.shards.parts().size()),
      gathers_(memory_->places()) {
  for (size_t i = 0; i < sharded.tensors.size(); ++i) {
    const TensorSpec& tensor = sharded.tensors[i];
    const int unit = static_cast<int>(tensor.unit);
    for (int next = static_cast<int>(labels_.size()); next <= unit; ++next) {
      labels_.push_back(absl::StrCat("weights of unit ", next));
    }
    const std::byte* const data = memory_->tensor(static_cast<int>(i));
    if (data == nullptr) continue;
    if (PartOf(sharded, i).compute == DType::kF32) {
      values_[i] = absl::MakeConstSpan(reinterpret_cast<const float*>(data), tensor.elements());
    } else {
      rounded_[i] = data;
    }
  }
}

WeightGatherer::~WeightGatherer() {
  bool under_way = false;
  for (const std::shared_ptr<Work>& work : works_) under_way |= work != nullptr;
  if (!under_way) return;
  for (Communicator* const group : {&shard_group_, options_.expert_shards}) {
    if (group != nullptr) group->Abort("a step was given up with weights under way");
  }
  Outdate();
}

Communicator* WeightGatherer::GroupOf(const ShardLayout::Part& part) const {
  return part.experts ? options_.expert_shards : &shard_group_;
}

std::byte* WeightGatherer::Own(int part) const {
  const ShardLayout::Part& shape = sharded_.shards.parts()[part];
  const Communicator* const group = GroupOf(shape);
  const uint64_t begin = group == nullptr ? 0 : group->rank() * shape.slice;
  return memory_->part(part) + begin * SizeOf(shape.compute);
}

absl::Span<float> WeightGatherer::own_slice(int part) {
  return absl::MakeSpan(reinterpret_cast<float*>(Own(part)), sharded_.shards.parts()[part].slice);
}

void WeightGatherer::Start(int unit, absl::Span<const absl::Span<const float>> weights) {
  if (unit >= 0 && gathers_.Take(unit)) Gather(unit, weights);
}

void WeightGatherer::Gather(int unit, absl::Span<const absl::Span<const float>> weights) {
  if (sharded_.shards.unit_parts(unit).empty()) return;
  const int place = places().shared_place(unit);
  for (int other = 0; place >= 0 && other < static_cast<int>(labels_.size()); ++other) {
    // An error has ended the group, so the unit's own calls return it, too.
    if (places().shared_place(other) == place) End(other).IgnoreError();
  }
  const std::vector<int> parts = ChangedParts(unit);
  for (const int index : parts) {
    const ShardLayout::Part& part = sharded_.shards.parts()[index];
    std::byte* const own = Own(index);
    if (part.compute != DType::kF32) {
      options_.ops->Round(part.compute, weights[index], own);
    } else if (reinterpret_cast<const std::byte*>(weights[index].data()) != own) {
      options_.ops->Copy(weights[index], reinterpret_cast<float*>(own));
    }
  }
  if (shard_group_.size() == 1) return;
  failure_.Update(options_.ops->FollowComputation());
  if (!failure_.ok()) return;
  for (const int index : parts) {
    const ShardLayout::Part& part = sharded_.shards.parts()[index];
    Communicator* const group = GroupOf(part);
    if (group == nullptr) continue;
    CollectiveCall all_gather;
    all_gather.kind = Collective::kAllGather;
    all_gather.dtype = part.compute;
    all_gather.in = Own(index);
    all_gather.out = memory_->part(index);
    all_gather.count = part.slice;
    all_gather.timeout = options_.timeout;
    all_gather.label = labels_[unit];
    all_gather.stream = options_.ops->stream();
    works_[index] = group->Start(all_gather);
  }
}

std::vector<int> WeightGatherer::ChangedParts(int unit) {
  std::vector<int> changed;
  for (const int index : sharded_.shards.unit_parts(unit)) {
    const bool stays =
        sharded_.shards.parts()[index].frozen && options_.holding == UnitPlaces::Holding::kWhole;
    if (stays && frozen_in_place_[index]) continue;
    frozen_in_place_[index] = stays;
    changed.push_back(index);
  }
  return changed;
}

absl::Status WeightGatherer::End(int unit) {
  absl::Status result;
  for (const int index : sharded_.shards.unit_parts(unit)) {
    const std::shared_ptr<Work> work = std::exchange(works_[index], nullptr);
    if (work != nullptr) result.Update(options_.wait(*work));
  }
  return result;
}

absl::Status WeightGatherer::Await(int unit) {
  if (!Holds(unit)) {
    return absl::InternalError(
        absl::StrCat("weights of unit ", unit, " are waited for, but nobody has started them"));
  }
  MUSTER_RETURN_IF_ERROR(End(unit));
  return failure_;
}

absl::Status WeightGatherer::Acquire(int unit, Direction direction,
                                     absl::Span<const absl::Span<const float>> weights) {
  int next = -1;
  if (options_.holding == UnitPlaces::Holding::kInFlight) {
    next = direction == Direction::kForward ? unit + 1 : unit - 1;
  }
  for (const int gathered : gathers_.Acquire(unit, next)) Gather(gathered, weights);
  for (const int owner : places().tied_units(unit)) MUSTER_RETURN_IF_ERROR(Await(owner));
  return Await(unit);
}

bool WeightGatherer::Holds(int unit) const {
  return sharded_.shards.unit_parts(unit).empty() || gathers_.IsInPlace(unit);
}

void WeightGatherer::Outdate() {
  // An error has ended the group, so later calls return it, too.
  for (int unit = 0; unit < static_cast<int>(labels_.size()); ++unit) End(unit).IgnoreError();
  gathers_.Outdate();
}

}  // namespace muster
