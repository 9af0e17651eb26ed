#include "worker/device/device_slices.h"

#include <algorithm>
#include <utility>

#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "common/partition/model_units.h"
#include "common/plan/device/device_shard_plan.h"
#include "worker/device/await_device_memory.h"

namespace muster {
namespace {

CollectiveTraffic Since(const CollectiveTraffic& now, const CollectiveTraffic& before) {
  return {now.sent - before.sent, now.received - before.received};
}

// Adds a block's sums to those whose squares count: what lower tensor ranks have, too, is theirs.
void AddSums(const DenseLayout::Block& block, absl::Span<const float> sums,
             DeviceUpdateArrays& arrays) {
  if (block.repeated) return;
  if (arrays.sums.empty() || arrays.sums.back().end() != sums.begin()) {
    arrays.sums.push_back(sums);
  } else {
    arrays.sums.back() = {arrays.sums.back().data(), arrays.sums.back().size() + sums.size()};
  }
}

void Add(const CollectiveTraffic& traffic, CollectiveTraffic& sum) {
  sum.sent += traffic.sent;
  sum.received += traffic.received;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSlices>> DeviceSlices::Create(const DeviceOptions& options,
                                                                   const Holding& holding,
                                                                   const ShardState& state,
                                                                   DevicePasses& passes,
                                                                   const Groups& groups) {
  std::unique_ptr<DeviceSlices> slices(new DeviceSlices(options, holding, state, passes, groups));
  DeviceExtents extents;
  extents.activations.type = options.compute.type;
  extents.shard = options.compute.shard;
  const size_t bytes = PlanDeviceState(extents, nullptr).bytes.total;
  MUSTER_ASSIGN_OR_RETURN(slices->buffer_, AllocateDeviceMemory(bytes));
  passes.stream().Fill(slices->buffer_.data(), 0, bytes);
  slices->state_ = PlanDeviceState(extents, slices->buffer_.data());
  MUSTER_RETURN_IF_ERROR(slices->MakeExchanges());
  if (groups.tied != nullptr) {
    slices->tied_sums_ = std::make_unique<TiedSums>(*groups.tied, state.tables().tensors,
                                                    options.timeout, slices->ops_.get());
    slices->tensor_sums_ = state.TensorSlices(slices->scatterer_->sums());
  }
  MUSTER_ASSIGN_OR_RETURN(slices->update_,
                          DeviceUpdate::Create(options, passes, slices->UpdateArrays()));
  return slices;
}

DeviceSlices::DeviceSlices(const DeviceOptions& options, const Holding& holding,
                           const ShardState& state, DevicePasses& passes, const Groups& groups)
    : options_(options),
      holding_(HoldingOfStage(holding.stage)),
      kept_bytes_(holding.kept_bytes),
      sharded_{state.layout(), state.shard_layout(), state.tables().tensors},
      owned_(state.owned_blocks()),
      units_(UnitCount(sharded_.tensors)),
      read_(TensorsReadOnDevices(sharded_.tensors, options.compute.type)),
      passes_(passes),
      groups_(groups),
      exchange_(groups.host, state.shard(), options.timeout) {}

absl::Status DeviceSlices::MakeExchanges() {
  MUSTER_ASSIGN_OR_RETURN(
      ops_, DeviceSliceOps::Create([this]() -> DeviceStream& { return passes_.stream(); }));
  MUSTER_ASSIGN_OR_RETURN(gatherer_, WeightGatherer::Create(groups_.shard_group, sharded_,
                                                            {.holding = *holding_.weights,
                                                             .kept_bytes = kept_bytes_,
                                                             .timeout = options_.timeout,
                                                             .ops = ops_.get()}));
  const uint64_t sums = options_.compute.shard->sums;
  MUSTER_ASSIGN_OR_RETURN(
      scatterer_, GradientScatterer::Create(groups_.shard_group, sharded_,
                                            {.holding = *holding_.gradients,
                                             .timeout = options_.timeout,
                                             .replicas = groups_.replicas,
                                             .ops = ops_.get(),
                                             .sums = absl::MakeSpan(state_.gradients, sums)}));
  PlaceWeights();
  copies_ = std::make_unique<LowPrecisionCopies>(
      read_, gatherer_->parameters(),
      LowPrecisionCopiesPlace{.memory = state_.rounded, .ops = [this]() -> Ops& {
                                passes_.stream();
                                return passes_.ops();
                              }});
  return absl::OkStatus();
}

void DeviceSlices::PlaceWeights() {
  float* own = state_.weights;
  const absl::Span<const ShardLayout::Part> parts = sharded_.shards.parts();
  for (size_t index = 0; index < parts.size(); ++index) {
    // Gathered f32 weights are stepped where they are, if they stay there.
    if (!in_flight() && parts[index].compute == DType::kF32) {
      weights_.push_back(gatherer_->own_slice(static_cast<int>(index)));
    } else {
      weights_.emplace_back(own, parts[index].slice);
      own += parts[index].slice;
    }
  }
  readable_weights_.assign(weights_.begin(), weights_.end());
}

DeviceUpdateArrays DeviceSlices::UpdateArrays() const {
  DeviceUpdateArrays arrays;
  arrays.state = state_;
  absl::optional<uint32_t> last_part;
  for (const ShardLayout::OwnedBlock& owned : owned_) {
    const uint32_t part = owned.block.part;
    const auto elements = static_cast<int64_t>(owned.block.elements());
    const uint64_t in_slice = owned.slice_begin - sharded_.shards.parts()[part].slice_begin;
    AddSums(owned.block, scatterer_->sums()[part].subspan(in_slice, elements), arrays);
    // Neighbouring blocks of one group are one stretch.
    if (last_part == part && arrays.stretches.back().weight_decay == owned.block.weight_decay) {
      arrays.stretches.back().elements += elements;
      continue;
    }
    last_part = part;
    DeviceUpdateArrays::Stretch& stretch = arrays.stretches.emplace_back();
    stretch.elements = elements;
    stretch.weight_decay = owned.block.weight_decay;
    stretch.arrays.gradient = scatterer_->sums()[part].data() + in_slice;
    stretch.arrays.weights = weights_[part].data() + in_slice;
    stretch.arrays.m = state_.m + owned.slice_begin;
    stretch.arrays.v = state_.v + owned.slice_begin;
  }
  return arrays;
}

DeviceSlices::~DeviceSlices() {
  passes_.Stop();
  scatterer_ = nullptr;
  if (gatherer_ != nullptr) gatherer_->Outdate();
}

absl::Status DeviceSlices::CopyState(Way way, ShardState& state) {
  DeviceStream& stream = passes_.stream();
  const auto copy = [way, &stream](absl::Span<float> host, float* device) {
    if (way == Way::kToDevice) {
      stream.CopyToDevice(device, host.data(), host.size() * sizeof(float));
    } else {
      stream.CopyToHost(host.data(), device, host.size() * sizeof(float));
    }
  };
  const ShardState::State values = state.state();
  const std::vector<absl::Span<float>> slices = state.PartSlices(values.weights);
  for (size_t part = 0; part < slices.size(); ++part) copy(slices[part], weights_[part].data());
  for (const ShardLayout::OwnedBlock& owned : owned_) {
    // A block's state is all of m, then all of v.
    const uint64_t elements = owned.block.elements();
    const absl::Span<float> moments =
        values.optimizer_state.subspan(2 * owned.slice_begin, 2 * elements);
    copy(moments.first(elements), state_.m + owned.slice_begin);
    copy(moments.last(elements), state_.v + owned.slice_begin);
  }
  return stream.Synchronize();
}

absl::Status DeviceSlices::Upload(ShardState& state) {
  MUSTER_RETURN_IF_ERROR(CopyState(Way::kToDevice, state));
  if (in_flight()) {
    // Both shared places then hold weights, as in training; the first step gathers anew.
    for (int unit = 0; unit < std::min(units_, 3); ++unit) {
      gatherer_->Start(unit, readable_weights_);
      MUSTER_RETURN_IF_ERROR(gatherer_->Await(unit));
    }
    return absl::OkStatus();
  }
  last_traffic_ = traffic();
  GatherAll();
  return AwaitCalls();
}

absl::Status DeviceSlices::Download(ShardState& state) { return CopyState(Way::kToHost, state); }

void DeviceSlices::GatherAll() {
  if (in_flight()) return;
  for (int unit = 0; unit < units_; ++unit) gatherer_->Start(unit, readable_weights_);
}

absl::Status DeviceSlices::AwaitCalls() {
  if (in_flight()) return absl::OkStatus();
  for (int unit = 0; unit < units_; ++unit) MUSTER_RETURN_IF_ERROR(gatherer_->Await(unit));
  return absl::OkStatus();
}

absl::Status DeviceSlices::BeginStep() {
  copies_->Outdate();
  micro_batches_ = 0;
  if (in_flight()) {
    // Every step gathers the same, whatever was evaluated before, and counts only its traffic.
    gatherer_->Outdate();
    last_traffic_ = traffic();
    gatherer_->Start(0, readable_weights_);
  }
  return passes_.status();
}

absl::Status DeviceSlices::Acquire(int unit, Direction direction) {
  MUSTER_RETURN_IF_ERROR(gatherer_->Acquire(unit, direction, readable_weights_));
  if (direction == Direction::kBackward) MUSTER_RETURN_IF_ERROR(scatterer_->BeforeWrite(unit));
  copies_->Refresh(unit);
  return passes_.status();
}

void DeviceSlices::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (++micro_batches_ == 1) examples_ = 0;
  examples_ += examples;
  scatterer_->BeginMicroBatch(position);
}

absl::StatusOr<DeviceUpdateResult> DeviceSlices::EndStep(const DeviceStepNumbers& numbers) {
  MUSTER_RETURN_IF_ERROR(scatterer_->Finish());
  if (tied_sums_ != nullptr) MUSTER_RETURN_IF_ERROR(tied_sums_->Add(tensor_sums_));
  MUSTER_ASSIGN_OR_RETURN(const double squares, update_->SumOfSquares());
  const CollectiveTraffic now = traffic();
  Add(Since(now, std::exchange(last_traffic_, now)), counted_);
  MUSTER_ASSIGN_OR_RETURN(DeviceUpdateStep step, exchange_.Run(examples_, squares));
  step.loss_scale = numbers.loss_scale;
  step.learning_rate = numbers.learning_rate;
  step.step = numbers.step;
  MUSTER_ASSIGN_OR_RETURN(const DeviceUpdateResult result, update_->Run(step));
  if (result.skipped) return result;
  gatherer_->Outdate();
  GatherAll();
  return result;
}

CollectiveTraffic DeviceSlices::traffic() const {
  CollectiveTraffic sum = groups_.shard_group.traffic();
  if (groups_.replicas != nullptr) Add(groups_.replicas->traffic(), sum);
  return sum;
}

void DeviceSlices::Count(StrategyCounters& counters) const {
  counters.bytes_sent += counted_.sent;
  counters.bytes_received += counted_.received;
  counters.other_bytes_sent += exchange_.traffic().sent;
  counters.other_bytes_received += exchange_.traffic().received;
}

}  // namespace muster
