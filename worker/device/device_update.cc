#include "worker/device/device_update.h"

#include <new>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_optimizer.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {

// What the host and the device tell one another once a step.
struct DeviceUpdate::Pinned {
  // With weight decay, and without.
  DeviceAdamStep adam[2];
  double examples = 0;
  float loss_scale = 1;
  GradientControl control;
};

DeviceUpdate::DeviceUpdate(const DeviceOptions& options, DevicePasses& passes, DeviceSpaces& spaces,
                           const Group& group)
    : options_(options), passes_(passes), spaces_(spaces), group_(group) {}

absl::StatusOr<std::unique_ptr<DeviceUpdate>> DeviceUpdate::Create(const DeviceOptions& options,
                                                                   DevicePasses& passes,
                                                                   DeviceSpaces& spaces,
                                                                   const Group& group) {
  std::unique_ptr<DeviceUpdate> update(new DeviceUpdate(options, passes, spaces, group));
  MUSTER_ASSIGN_OR_RETURN(update->pinned_,
                          DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, sizeof(Pinned)));
  new (update->pinned_.data()) Pinned();
  if (group.device == nullptr) return update;
  MUSTER_ASSIGN_OR_RETURN(update->order_, DeviceCallOrder::Create(passes));
  const DeviceParameters& places = spaces.places();
  MUSTER_ASSIGN_OR_RETURN(
      update->reducer_,
      GradientReducer::Create(*group.device,
                              MakeBucketPlan(places.layout(), places.padded(), options.buckets),
                              places.elements(),
                              {.timeout = options.timeout,
                               .gradients = {spaces.state().gradients, places.elements()},
                               .order = update->order_.get()}));
  return update;
}

DeviceUpdate::~DeviceUpdate() {
  reducer_ = nullptr;
  if (examples_sum_ != nullptr) {
    group_.host.Abort("a step was given up with the sum of its examples under way");
    examples_sum_->Wait(absl::InfiniteDuration()).IgnoreError();
  }
  passes_.Stop();
}

void DeviceUpdate::SumExamples(uint64_t examples) {
  examples_ = static_cast<double>(examples);
  if (group_.device == nullptr) return;
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

void DeviceUpdate::UnitReady(int unit) {
  if (reducer_ != nullptr) reducer_->UnitReady(unit);
}

absl::Status DeviceUpdate::AwaitSums() {
  MUSTER_RETURN_IF_ERROR(reducer_->Finish());
  MUSTER_RETURN_IF_ERROR(std::exchange(examples_sum_, nullptr)->Wait(absl::InfiniteDuration()));
  const CollectiveTraffic traffic = group_.host.traffic();
  examples_traffic_.sent += traffic.sent - traffic_before_.sent;
  examples_traffic_.received += traffic.received - traffic_before_.received;
  return order_->LeadComputation();
}

void DeviceUpdate::QueueDecision(DeviceStream& stream) {
  const DeviceState& state = spaces_.state();
  stream.CopyToDevice(state.examples, &pinned().examples, sizeof(double));
  stream.CopyToDevice(state.loss_scale, &pinned().loss_scale, sizeof(float));
  DeviceSumOfSquares(stream, static_cast<int64_t>(spaces_.places().elements()), state.gradients,
                     Accumulation::kWrite, state.squares, state.squares_scratch);
  DeviceDecideStep(stream, options_.clip, state.squares, state.examples, state.loss_scale,
                   state.control);
  stream.CopyToHost(&pinned().control, state.control, sizeof(GradientControl));
}

void DeviceUpdate::QueueOptimizer(DeviceStream& stream) {
  const DeviceState& state = spaces_.state();
  stream.CopyToDevice(state.adam, pinned().adam, sizeof(Pinned::adam));
  const DType type = options_.compute.type;
  for (const DeviceParameters::GroupStretch& stretch : spaces_.places().group_stretches()) {
    DeviceAdamArrays arrays;
    arrays.gradient = state.gradients + stretch.begin;
    arrays.weights = state.weights + stretch.begin;
    arrays.m = state.m + stretch.begin;
    arrays.v = state.v + stretch.begin;
    if (state.rounded != nullptr) {
      arrays.rounded_type = type;
      arrays.rounded = static_cast<std::byte*>(state.rounded) + stretch.begin * SizeOf(type);
    }
    DeviceAdam(stream, static_cast<int64_t>(stretch.end - stretch.begin),
               state.adam + (stretch.weight_decay ? 0 : 1), state.control, arrays);
  }
}

absl::Status DeviceUpdate::QueueBoth(DeviceStream& stream) {
  const auto queue = [this, &stream] {
    QueueDecision(stream);
    QueueOptimizer(stream);
    return absl::OkStatus();
  };
  if (!ran_) {
    ran_ = true;
    return queue();
  }
  if (graph_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(graph_, DeviceGraph::Capture(stream, queue));
  }
  graph_->Launch(stream);
  return absl::OkStatus();
}

absl::StatusOr<DeviceUpdateResult> DeviceUpdate::Run(float loss_scale, float learning_rate,
                                                     uint64_t step) {
  DeviceStream& stream = passes_.stream();
  MUSTER_RETURN_IF_ERROR(stream.status());
  if (reducer_ != nullptr) MUSTER_RETURN_IF_ERROR(AwaitSums());
  AdamOptions vectors = options_.optimizer;
  vectors.weight_decay = 0;
  // The device has read the step before's values, so they may be overwritten.
  pinned().adam[0] = AdamStepOf(options_.optimizer, learning_rate, step);
  pinned().adam[1] = AdamStepOf(vectors, learning_rate, step);
  pinned().examples = examples_;
  pinned().loss_scale = loss_scale;
  MUSTER_RETURN_IF_ERROR(QueueBoth(stream));
  MUSTER_RETURN_IF_ERROR(passes_.Wait());
  const GradientControl& control = pinned().control;
  return DeviceUpdateResult{.examples = static_cast<uint64_t>(examples_),
                            .gradient_norm = control.norm,
                            .skipped = control.skip != 0};
}

}  // namespace muster
