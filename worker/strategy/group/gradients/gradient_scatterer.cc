#include "worker/strategy/group/gradients/gradient_scatterer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/model_units.h"
#include "common/tensor/half.h"

namespace muster {

absl::StatusOr<std::unique_ptr<GradientScatterer>> GradientScatterer::Create(
    Communicator& shard_group, const ShardedTensors& sharded,
    const GradientScattererOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<UnitMemory> memory,
      UnitMemory::Create(shard_group, sharded, UnitPlaces::Content::kGradients,
                         UnitPlaces(sharded.shards, sharded.tensors, options.holding,
                                    UnitPlaces::Content::kGradients)));
  std::unique_ptr<GradientScatterer> scatterer(
      new GradientScatterer(shard_group, sharded, options, std::move(memory)));
  MUSTER_RETURN_IF_ERROR(scatterer->Allocate());
  return scatterer;
}

GradientScatterer::GradientScatterer(Communicator& shard_group, const ShardedTensors& sharded,
                                     const GradientScattererOptions& options,
                                     std::unique_ptr<UnitMemory> memory)
    : shard_group_(shard_group),
      sharded_(sharded),
      options_(options),
      memory_(std::move(memory)),
      gradients_(sharded.tensors.size()),
      sums_(sharded.shards.parts().size()) {
  for (size_t i = 0; i < sharded.tensors.size(); ++i) {
    std::byte* const gradient = memory_->tensor(static_cast<int>(i));
    if (gradient == nullptr) continue;
    gradients_[i] =
        absl::MakeSpan(reinterpret_cast<float*>(gradient), sharded.tensors[i].elements());
  }
  const std::vector<std::vector<int>> complete = CompleteUnits(sharded.tensors);
  ready_.resize(complete.size());
  for (int ready = static_cast<int>(complete.size()) - 1; ready >= 0; --ready) {
    ready_[ready].begin = parts_.size();
    for (const int unit : complete[ready]) {
      for (const int index : sharded.shards.unit_parts(unit)) {
        parts_.push_back(
            {.index = index, .unit = unit, .label = absl::StrCat("gradients of unit ", unit)});
      }
    }
    ready_[ready].end = parts_.size();
  }
}

Communicator* GradientScatterer::GroupOf(const ShardLayout::Part& part) const {
  return part.experts ? options_.expert_shards : &shard_group_;
}

uint64_t GradientScatterer::OwnBegin(const ShardLayout::Part& part) const {
  const Communicator* const group = GroupOf(part);
  return group == nullptr ? 0 : group->rank() * part.slice;
}

absl::Status GradientScatterer::Allocate() {
  const size_t bytes = memory_->bytes().size();
  if (bytes == 0) return absl::OkStatus();
  if (options_.wire == DType::kBf16) {
    MUSTER_ASSIGN_OR_RETURN(wire_memory_,
                            shard_group_.Allocate(bytes / sizeof(float) * sizeof(uint16_t)));
  }
  const bool whole = options_.holding == UnitPlaces::Holding::kWhole;
  // The memory of the sums, and where each part's sums begin there.
  absl::Span<float> space = options_.sums;
  if (whole) space = {reinterpret_cast<float*>(memory_->bytes().data()), bytes / sizeof(float)};
  const auto begin_of = [&](int index) -> uint64_t {
    const ShardLayout::Part& part = sharded_.shards.parts()[index];
    if (!whole) return part.slice_begin;
    return memory_->places().part_offset(index) / sizeof(float) + OwnBegin(part);
  };
  if (options_.replicas != nullptr && options_.replicas->size() > 1) {
    // One bucket for each part, in the order in which scatters end.
    std::vector<GradientBucket> plan;
    for (size_t position = 0; position < parts_.size(); ++position) {
      const int index = parts_[position].index;
      const ShardLayout::Part& part = sharded_.shards.parts()[index];
      if (part.experts && options_.expert_replicas == nullptr) continue;
      plan.push_back({.begin = begin_of(index),
                      .end = begin_of(index) + part.slice,
                      .ready_unit = BucketUnit(position),
                      .experts = part.experts});
    }
    MUSTER_ASSIGN_OR_RETURN(
        reducer_, GradientReducer::Create(*options_.replicas, std::move(plan),
                                          whole ? space.size() : sharded_.shards.slice_elements(),
                                          {.wire = options_.wire,
                                           .deterministic = options_.deterministic,
                                           .timeout = options_.timeout,
                                           .wait = options_.wait,
                                           .gradients = space,
                                           .order = options_.ops,
                                           .experts = options_.expert_replicas}));
    space = reducer_->gradients();
  } else if (space.empty()) {
    own_sums_ = std::make_unique<Arena>(sharded_.shards.slice_elements());
    space = own_sums_->values();
  }
  for (size_t index = 0; index < sums_.size(); ++index) {
    sums_[index] =
        space.subspan(begin_of(static_cast<int>(index)), sharded_.shards.parts()[index].slice);
  }
  return absl::OkStatus();
}

GradientScatterer::~GradientScatterer() {
  if (under_way_.empty()) return;
  for (Communicator* const group : {&shard_group_, options_.expert_shards}) {
    if (group != nullptr) group->Abort("a step was given up with gradients under way");
  }
  for (const size_t position : under_way_) {
    const std::shared_ptr<Work>& work = parts_[position].work;
    if (work != nullptr) work->Wait(absl::InfiniteDuration()).IgnoreError();
  }
}

void GradientScatterer::BeginMicroBatch(SeriesPosition position) {
  ++micro_batches_;
  position_ = position;
}

Accumulation GradientScatterer::GradientStore() const {
  return options_.holding == UnitPlaces::Holding::kInFlight || micro_batches_ == 1
             ? Accumulation::kWrite
             : Accumulation::kAdd;
}

absl::Status GradientScatterer::BeforeWrite(int unit) {
  if (const int place = memory_->places().shared_place(unit); place >= 0) {
    const int writer = std::exchange(writers_[place], unit);
    if (writer >= 0 && writer != unit) {
      return absl::FailedPreconditionError(
          absl::StrCat("unit ", unit, " is to write its gradients where those of unit ", writer,
                       " still lie, which are not ready; a unit's gradients must be ready before ",
                       "the next unit but one goes backward"));
    }
  }
  MUSTER_RETURN_IF_ERROR(FreeMemory(unit));
  for (const int owner : memory_->places().tied_units(unit)) {
    MUSTER_RETURN_IF_ERROR(FreeMemory(owner));
  }
  return absl::OkStatus();
}

absl::Status GradientScatterer::FreeMemory(int unit) {
  const int place = memory_->places().shared_place(unit);
  const auto lies_there = [&](size_t position) {
    const int other = parts_[position].unit;
    return other == unit || (place >= 0 && memory_->places().shared_place(other) == place);
  };
  while (std::any_of(under_way_.begin(), under_way_.end(), lies_there)) CollectNext();
  return failure_;
}

void GradientScatterer::UnitReady(int unit) {
  if (const int place = memory_->places().shared_place(unit); place >= 0) writers_[place] = -1;
  if (options_.holding == UnitPlaces::Holding::kWhole && position_ != SeriesPosition::kLast) return;
  if (unit >= static_cast<int>(ready_.size())) return;
  for (size_t position = ready_[unit].begin; position < ready_[unit].end; ++position) {
    Scatter(position);
  }
}

// The memory that a part's call reads, and this rank's slice of it. Sums arrive in the slice unless
// they go straight to their final place.
struct GradientScatterer::Sent {
  std::byte* all = nullptr;
  std::byte* own = nullptr;
};

GradientScatterer::Sent GradientScatterer::SentOf(const Part& part) const {
  std::byte* all = memory_->part(part.index);
  if (wire_memory_ != nullptr) {
    all = wire_memory_->bytes().data() +
          memory_->places().part_offset(part.index) / sizeof(float) * sizeof(uint16_t);
  }
  return {all, all + OwnBegin(sharded_.shards.parts()[part.index]) * SizeOf(options_.wire)};
}

void GradientScatterer::Scatter(size_t position) {
  Part& part = parts_[position];
  const ShardLayout::Part& shape = sharded_.shards.parts()[part.index];
  const absl::Span<float> gradients(reinterpret_cast<float*>(memory_->part(part.index)),
                                    shape.slice * shape.slices);
  // The padding still holds what another unit has left there.
  options_.ops->Zero(gradients.subspan(shape.elements()));
  const Sent sent = SentOf(part);
  if (wire_memory_ != nullptr) {
    RoundToHalf(options_.wire, gradients, reinterpret_cast<uint16_t*>(sent.all));
  }
  part.adds = options_.holding == UnitPlaces::Holding::kInFlight && micro_batches_ > 1;
  part.position = position_;
  under_way_.push_back(position);
  Communicator* const group = GroupOf(shape);
  if (group == nullptr || group->size() == 1) return;
  failure_.Update(options_.ops->FollowComputation());
  if (!failure_.ok()) return;
  CollectiveCall scatter;
  scatter.kind = Collective::kReduceScatter;
  scatter.reduction = Reduction::kSum;
  scatter.dtype = options_.wire;
  scatter.in = sent.all;
  scatter.out = sent.own;
  if (wire_memory_ == nullptr && !part.adds) scatter.out = sums_[part.index].data();
  scatter.count = shape.slice;
  scatter.deterministic = options_.deterministic;
  scatter.timeout = options_.timeout;
  scatter.label = part.label;
  scatter.stream = options_.ops->stream();
  part.work = group->Start(scatter);
}

void GradientScatterer::CollectNext() {
  const size_t position = under_way_.front();
  under_way_.pop_front();
  Part& part = parts_[position];
  const bool alone = part.work == nullptr;
  if (!alone) {
    failure_.Update(options_.wait(*std::exchange(part.work, nullptr)));
  }
  if (!failure_.ok()) return;
  const absl::Span<float> sum = sums_[part.index];
  const std::byte* const own = SentOf(part).own;
  const auto* const values = reinterpret_cast<const float*>(own);
  if (wire_memory_ != nullptr) {
    part.adds ? AddHalf(options_.wire, own, sum) : WidenHalf(options_.wire, own, sum);
  } else if (part.adds) {
    options_.ops->Add({values, sum.size()}, sum.data());
  } else if (alone && values != sum.data()) {
    options_.ops->Copy({values, sum.size()}, sum.data());
  }
  if (reducer_ != nullptr && part.position == SeriesPosition::kLast) {
    reducer_->UnitReady(BucketUnit(position));
  }
}

absl::Status GradientScatterer::Finish() {
  while (!under_way_.empty()) CollectNext();
  if (reducer_ != nullptr) {
    // This rank's share of the replicas' sums does not exist.
    for (Communicator* const group : {options_.replicas, options_.expert_replicas}) {
      if (!failure_.ok() && group != nullptr) group->Abort(std::string(failure_.message()));
    }
    failure_.Update(reducer_->Finish());
  }
  micro_batches_ = 0;
  return failure_;
}

}  // namespace muster
