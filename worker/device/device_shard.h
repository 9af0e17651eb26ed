#ifndef MUSTER_WORKER_DEVICE_DEVICE_SHARD_H_
#define MUSTER_WORKER_DEVICE_DEVICE_SHARD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kernels/accumulation.h"
#include "common/step/action.h"
#include "worker/device/device_update.h"
#include "worker/nn/layer.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/training_state.h"

namespace muster {

// The numbers with which a step ends on every rank.
struct DeviceStepNumbers {
  float loss_scale = 1;
  float learning_rate = 0;
  // The step's number, from 1: bias correction counts clocks.
  uint64_t step = 1;
};

// What a rank holds of a job's parameters on its device while it trains in one group: all of them
// (device_replica.h) or its shard's slices (device_slices.h). The hooks are Strategy's; they queue
// their work. Used by one thread.
class DeviceShard {
 public:
  virtual ~DeviceShard() = default;

  virtual ModelParameters parameters() const = 0;
  virtual GradientSpans gradients() const = 0;

  // Copies weights and moments from the host, and waits. A collective call if weights are gathered.
  // REQUIRES: a state of adam or adamw. Parameters may be read from then on.
  virtual absl::Status Upload(ShardState& state) = 0;
  // Copies weights and moments to the host, and waits. Clocks and numbers of steps are the
  // caller's.
  virtual absl::Status Download(ShardState& state) = 0;

  virtual absl::Status BeginStep() = 0;
  virtual absl::Status Acquire(int unit, Direction direction) = 0;
  // `examples` are the micro-batch's.
  virtual void BeforeBackward(uint64_t examples, SeriesPosition position) = 0;
  virtual Accumulation GradientStore() const = 0;
  virtual void GradientReady(int unit) = 0;
  // Sums gradients over the ranks, and moves the weights, or on all ranks none. Waits for the sums,
  // if there are several ranks, and for the device. After an error of a collective call weights and
  // moments are as before.
  virtual absl::StatusOr<DeviceUpdateResult> EndStep(const DeviceStepNumbers& numbers) = 0;

  // Blocks until no call is under way. To be called between steps.
  virtual absl::Status AwaitCalls() = 0;

  // Adds the steps' traffic.
  virtual void Count(StrategyCounters& counters) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_SHARD_H_
