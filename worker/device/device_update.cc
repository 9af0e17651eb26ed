#include "worker/device/device_update.h"

#include <new>

#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"
#include "worker/strategy/group/bucket_plan.h"

namespace muster {

// What the host and the device tell one another once a step.
struct DeviceUpdate::Pinned {
  // With weight decay, and without.
  DeviceAdamStep adam[2];
  float loss_scale = 1;
  // Of which `tokens` are a step's examples; they go this way, and those of all ranks come back.
  HeadSums sums;
  GradientControl control;
};

DeviceUpdate::DeviceUpdate(const DeviceTrainerOptions& options, DevicePasses& passes,
                           DeviceSpaces& spaces)
    : options_(options), passes_(passes), spaces_(spaces) {}

absl::StatusOr<std::unique_ptr<DeviceUpdate>> DeviceUpdate::Create(
    const DeviceTrainerOptions& options, DevicePasses& passes, DeviceSpaces& spaces,
    Communicator* communicator) {
  std::unique_ptr<DeviceUpdate> update(new DeviceUpdate(options, passes, spaces));
  MUSTER_ASSIGN_OR_RETURN(update->pinned_,
                          DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, sizeof(Pinned)));
  new (update->pinned_.data()) Pinned();
  if (communicator == nullptr) return update;
  update->communicator_ = communicator;
  MUSTER_ASSIGN_OR_RETURN(update->order_, DeviceCallOrder::Create(passes));
  const DeviceParameters& places = spaces.places();
  MUSTER_ASSIGN_OR_RETURN(
      update->reducer_,
      GradientReducer::Create(*communicator,
                              MakeBucketPlan(places.layout(), places.padded(), options.buckets),
                              places.elements(),
                              {.timeout = options.timeout,
                               .gradients = {spaces.state().gradients, places.elements()},
                               .order = update->order_.get()}));
  return update;
}

DeviceUpdate::~DeviceUpdate() {
  reducer_ = nullptr;
  passes_.Stop();
}

absl::Status DeviceUpdate::Begin(float loss_scale) {
  DeviceStream& stream = passes_.stream();
  const DeviceState& state = spaces_.state();
  pinned().loss_scale = loss_scale;
  stream.CopyToDevice(state.loss_scale, &pinned().loss_scale, sizeof(float));
  stream.Fill(state.gradients, 0, spaces_.places().elements() * sizeof(float));
  return stream.status();
}

void DeviceUpdate::UnitReady(int unit) {
  if (reducer_ != nullptr) reducer_->UnitReady(unit);
}

absl::Status DeviceUpdate::Reduce() {
  MUSTER_RETURN_IF_ERROR(reducer_->Finish());
  MUSTER_RETURN_IF_ERROR(order_->FollowComputation());
  CollectiveCall sums;
  sums.kind = Collective::kAllReduce;
  sums.reduction = Reduction::kSum;
  sums.dtype = DType::kF64;
  sums.in = sums.out = spaces_.state().sums;
  sums.count = sizeof(HeadSums) / sizeof(double);
  sums.timeout = options_.timeout;
  sums.label = "examples of the step";
  sums.stream = order_->stream();
  const CollectiveTraffic before = communicator_->traffic();
  MUSTER_RETURN_IF_ERROR(communicator_->Run(sums));
  const CollectiveTraffic after = communicator_->traffic();
  sums_traffic_.sent += after.sent - before.sent;
  sums_traffic_.received += after.received - before.received;
  return order_->LeadComputation();
}

void DeviceUpdate::QueueDecision(DeviceStream& stream) {
  const DeviceState& state = spaces_.state();
  DeviceSumOfSquares(stream, static_cast<int64_t>(spaces_.places().elements()), state.gradients,
                     Accumulation::kWrite, state.squares, state.squares_scratch);
  DeviceDecideStep(stream, options_.clip, state.squares, state.sums, state.loss_scale,
                   state.control);
  stream.CopyToHost(&pinned().sums, state.sums, sizeof(HeadSums));
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

absl::StatusOr<DeviceUpdateResult> DeviceUpdate::Run(uint64_t examples, float learning_rate,
                                                     uint64_t step) {
  DeviceStream& stream = passes_.stream();
  MUSTER_RETURN_IF_ERROR(stream.status());
  // Of the step before nothing reads these any more.
  pinned().sums = {.tokens = static_cast<double>(examples)};
  stream.CopyToDevice(spaces_.state().sums, &pinned().sums, sizeof(HeadSums));
  if (reducer_ != nullptr) MUSTER_RETURN_IF_ERROR(Reduce());
  AdamOptions vectors = options_.optimizer;
  vectors.weight_decay = 0;
  pinned().adam[0] = AdamStepOf(options_.optimizer, learning_rate, step);
  pinned().adam[1] = AdamStepOf(vectors, learning_rate, step);
  MUSTER_RETURN_IF_ERROR(QueueBoth(stream));
  MUSTER_RETURN_IF_ERROR(passes_.Wait());
  const Pinned& results = pinned();
  return DeviceUpdateResult{.examples = static_cast<uint64_t>(results.sums.tokens),
                            .gradient_norm = results.control.norm,
                            .skipped = results.control.skip != 0};
}

}  // namespace muster
