#include "worker/device/weights/device_update.h"

#include <new>
#include <utility>

#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"

namespace muster {

// What the host and the device tell one another once a step.
struct DeviceUpdate::Pinned {
  // With weight decay, and without.
  DeviceAdamStep adam[2];
  double examples = 0;
  double squares = 0;
  float loss_scale = 1;
  GradientControl control;
};

DeviceUpdate::DeviceUpdate(const DeviceOptions& options, DevicePasses& passes,
                           DeviceUpdateArrays arrays)
    : options_(options), passes_(passes), arrays_(std::move(arrays)) {}

absl::StatusOr<std::unique_ptr<DeviceUpdate>> DeviceUpdate::Create(const DeviceOptions& options,
                                                                   DevicePasses& passes,
                                                                   DeviceUpdateArrays arrays) {
  std::unique_ptr<DeviceUpdate> update(new DeviceUpdate(options, passes, std::move(arrays)));
  MUSTER_ASSIGN_OR_RETURN(update->pinned_,
                          DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, sizeof(Pinned)));
  new (update->pinned_.data()) Pinned();
  return update;
}

absl::Status DeviceUpdate::Queue(Recorded& recorded, DeviceStream& stream,
                                 absl::FunctionRef<void()> work) {
  if (!std::exchange(recorded.ran, true)) {
    work();
    return absl::OkStatus();
  }
  if (recorded.graph == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(recorded.graph, DeviceGraph::Capture(stream, [&work] {
                              work();
                              return absl::OkStatus();
                            }));
  }
  recorded.graph->Launch(stream);
  return absl::OkStatus();
}

void DeviceUpdate::QueueSquares(DeviceStream& stream) {
  const DeviceState& state = arrays_.state;
  Accumulation accumulation = Accumulation::kWrite;
  for (const absl::Span<const float> sums : arrays_.sums) {
    DeviceSumOfSquares(stream, static_cast<int64_t>(sums.size()), sums.data(),
                       std::exchange(accumulation, Accumulation::kAdd), state.squares,
                       state.squares_scratch);
  }
}

void DeviceUpdate::QueueDecision(DeviceStream& stream) {
  const DeviceState& state = arrays_.state;
  stream.CopyToDevice(state.examples, &pinned().examples, sizeof(double));
  stream.CopyToDevice(state.loss_scale, &pinned().loss_scale, sizeof(float));
  DeviceDecideStep(stream, options_.clip, state.squares, state.examples, state.loss_scale,
                   state.control);
  stream.CopyToHost(&pinned().control, state.control, sizeof(GradientControl));
}

void DeviceUpdate::QueueOptimizer(DeviceStream& stream) {
  const DeviceState& state = arrays_.state;
  stream.CopyToDevice(state.adam, pinned().adam, sizeof(Pinned::adam));
  for (const DeviceUpdateArrays::Stretch& stretch : arrays_.stretches) {
    if (stretch.sign_rate > 0) {
      DeviceSignStep(stream, stretch.elements, stretch.sign_rate, state.control, stretch.arrays);
      continue;
    }
    DeviceAdam(stream, stretch.elements, state.adam + (stretch.weight_decay ? 0 : 1), state.control,
               stretch.arrays);
  }
}

absl::StatusOr<double> DeviceUpdate::SumOfSquares() {
  DeviceStream& stream = passes_.stream();
  MUSTER_RETURN_IF_ERROR(stream.status());
  pinned().squares = 0;
  if (!arrays_.sums.empty()) {
    MUSTER_RETURN_IF_ERROR(Queue(squares_, stream, [this, &stream] {
      QueueSquares(stream);
      stream.CopyToHost(&pinned().squares, arrays_.state.squares, sizeof(double));
    }));
  }
  MUSTER_RETURN_IF_ERROR(passes_.Wait());
  return pinned().squares;
}

absl::StatusOr<GradientControl> DeviceUpdate::Run(const DeviceUpdateStep& step) {
  DeviceStream& stream = passes_.stream();
  MUSTER_RETURN_IF_ERROR(stream.status());
  AdamOptions vectors = options_.optimizer;
  vectors.weight_decay = 0;
  // The device has read the step before's values, so they may be overwritten.
  pinned().adam[0] = AdamStepOf(options_.optimizer, step.learning_rate, step.step);
  pinned().adam[1] = AdamStepOf(vectors, step.learning_rate, step.step);
  pinned().examples = static_cast<double>(step.examples);
  pinned().loss_scale = step.loss_scale;
  if (step.squares.has_value()) pinned().squares = *step.squares;
  MUSTER_RETURN_IF_ERROR(Queue(update_, stream, [&] {
    if (step.squares.has_value()) {
      stream.CopyToDevice(arrays_.state.squares, &pinned().squares, sizeof(double));
    } else {
      QueueSquares(stream);
    }
    QueueDecision(stream);
    QueueOptimizer(stream);
  }));
  MUSTER_RETURN_IF_ERROR(passes_.Wait());
  return pinned().control;
}

}  // namespace muster
