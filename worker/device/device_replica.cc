#include "worker/device/device_replica.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/replica_copy.h"
#include "worker/strategy/group/gradients/bucket_plan.h"

namespace muster {
namespace {

DeviceUpdateArrays ArraysOf(const DeviceSpaces& spaces, DType type) {
  const DeviceState& state = spaces.state();
  DeviceUpdateArrays arrays;
  arrays.state = state;
  for (const auto& [begin, end] : spaces.places().counted()) {
    arrays.sums.emplace_back(state.gradients + begin, end - begin);
  }
  for (const DeviceParameters::GroupStretch& group : spaces.places().group_stretches()) {
    DeviceUpdateArrays::Stretch& stretch = arrays.stretches.emplace_back();
    stretch.elements = static_cast<int64_t>(group.end - group.begin);
    stretch.weight_decay = group.weight_decay;
    stretch.arrays.gradient = state.gradients + group.begin;
    stretch.arrays.weights = state.weights + group.begin;
    stretch.arrays.m = state.m + group.begin;
    stretch.arrays.v = state.v + group.begin;
    if (state.rounded == nullptr) continue;
    stretch.arrays.rounded_type = type;
    stretch.arrays.rounded = static_cast<std::byte*>(state.rounded) + group.begin * SizeOf(type);
  }
  return arrays;
}

}  // namespace

DeviceReplica::DeviceReplica(const DeviceOptions& options, DevicePasses& passes, const Group& group)
    : options_(options), passes_(passes), group_(group) {
  if (group.shard.size(kModelAxes) == 1) return;
  exchange_ = std::make_unique<DeviceStepExchange>(group.host, group.shard, options.timeout);
}

absl::StatusOr<std::unique_ptr<DeviceReplica>> DeviceReplica::Create(const DeviceOptions& options,
                                                                     DeviceParameters parameters,
                                                                     DevicePasses& passes,
                                                                     const Group& group) {
  std::unique_ptr<DeviceReplica> replica(new DeviceReplica(options, passes, group));
  const DeviceExtents extents = DeviceExtentsOf(options.shape, parameters, options.compute);
  MUSTER_ASSIGN_OR_RETURN(
      replica->spaces_,
      DeviceSpaces::Create(std::move(parameters), options.compute, extents, passes.stream()));
  MUSTER_ASSIGN_OR_RETURN(
      replica->update_,
      DeviceUpdate::Create(options, passes, ArraysOf(*replica->spaces_, options.compute.type)));
  if (group.device == nullptr && group.tied == nullptr) return replica;
  MUSTER_ASSIGN_OR_RETURN(replica->order_, DeviceSliceOps::Create([&passes]() -> DeviceStream& {
                            return passes.stream();
                          }));
  const DeviceParameters& places = replica->spaces_->places();
  if (group.tied != nullptr) {
    replica->tied_sums_ = std::make_unique<TiedSums>(*group.tied, places.tensors().specs,
                                                     options.timeout, replica->order_.get());
  }
  if (group.device == nullptr) return replica;
  MUSTER_ASSIGN_OR_RETURN(
      replica->reducer_,
      GradientReducer::Create(
          *group.device, MakeBucketPlan(places.layout(), places.padded(), options.buckets),
          places.elements(),
          {.timeout = options.timeout,
           .gradients = {replica->spaces_->state().gradients, places.elements()},
           .order = replica->order_.get()}));
  return replica;
}

DeviceReplica::~DeviceReplica() {
  reducer_ = nullptr;
  if (examples_sum_ != nullptr) {
    group_.host.Abort("a step was given up with the sum of its examples under way");
    examples_sum_->Wait(absl::InfiniteDuration()).IgnoreError();
  }
  passes_.Stop();
}

absl::Status DeviceReplica::Upload(ShardState& state) {
  return CopyToDevice(state, passes_.stream(), *spaces_);
}

absl::Status DeviceReplica::Download(ShardState& state) {
  return CopyFromDevice(passes_.stream(), *spaces_, state);
}

absl::Status DeviceReplica::BeginStep() {
  examples_ = 0;
  if (!std::exchange(gradients_are_zero_, true)) spaces_->ZeroGradients(passes_.stream());
  return passes_.status();
}

void DeviceReplica::BeforeBackward(uint64_t examples, SeriesPosition position) {
  examples_ += static_cast<double>(examples);
  position_ = position;
  gradients_are_zero_ = false;
  if (position == SeriesPosition::kLast && group_.device != nullptr && exchange_ == nullptr) {
    SumExamples();
  }
}

void DeviceReplica::SumExamples() {
  traffic_before_ = group_.host.traffic();
  CollectiveCall sum;
  sum.kind = Collective::kAllReduce;
  sum.reduction = Reduction::kSum;
  sum.dtype = DType::kF64;
  sum.in = sum.out = &examples_;
  sum.count = 1;
  sum.timeout = options_.timeout;
  sum.label = "examples of the step";
  examples_sum_ = group_.host.Start(sum);
}

void DeviceReplica::GradientReady(int unit) {
  if (reducer_ != nullptr && position_ == SeriesPosition::kLast) reducer_->UnitReady(unit);
}

absl::Status DeviceReplica::AwaitSums() {
  MUSTER_RETURN_IF_ERROR(reducer_->Finish());
  if (examples_sum_ != nullptr) {
    MUSTER_RETURN_IF_ERROR(std::exchange(examples_sum_, nullptr)->Wait(absl::InfiniteDuration()));
    const CollectiveTraffic traffic = group_.host.traffic();
    examples_traffic_.sent += traffic.sent - traffic_before_.sent;
    examples_traffic_.received += traffic.received - traffic_before_.received;
  }
  return order_->LeadComputation();
}

absl::StatusOr<DeviceUpdateResult> DeviceReplica::EndStep(const DeviceStepNumbers& numbers) {
  MUSTER_RETURN_IF_ERROR(passes_.stream().status());
  if (reducer_ != nullptr) MUSTER_RETURN_IF_ERROR(AwaitSums());
  if (tied_sums_ != nullptr) MUSTER_RETURN_IF_ERROR(tied_sums_->Add(spaces_->gradients()));
  DeviceUpdateStep step = {.examples = static_cast<uint64_t>(examples_)};
  if (exchange_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const double squares, update_->SumOfSquares());
    MUSTER_ASSIGN_OR_RETURN(step, exchange_->Run(step.examples, squares));
  }
  step.loss_scale = numbers.loss_scale;
  step.learning_rate = numbers.learning_rate;
  step.step = numbers.step;
  return update_->Run(step);
}

void DeviceReplica::Count(StrategyCounters& counters) const {
  if (group_.device != nullptr) {
    counters.bytes_sent += group_.device->traffic().sent;
    counters.bytes_received += group_.device->traffic().received;
  }
  const CollectiveTraffic& other = exchange_ == nullptr ? examples_traffic_ : exchange_->traffic();
  counters.other_bytes_sent += other.sent;
  counters.other_bytes_received += other.received;
}

}  // namespace muster
