#ifndef MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_
#define MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/device/device.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_call_order.h"
#include "worker/device/device_options.h"
#include "worker/device/device_passes.h"
#include "worker/device/device_spaces.h"
#include "worker/strategy/group/gradient_reducer.h"

namespace muster {

// The result of a step's gradients.
struct DeviceUpdateResult {
  // What the gradients were divided by, over all ranks.
  uint64_t examples = 0;
  // Of the mean gradient, before clipping; not finite where the step was skipped for that.
  double gradient_norm = 0;
  // Nothing was changed: gradients overflowed, or there were no examples.
  bool skipped = false;
};

// What ends a step on a device: gradients, sums over examples (labels, where these have several),
// are summed over ranks, divided once by the number of all, and clipped by global norm; AdamW moves
// the weights. Every rank sees the same sums, so that ranks step, or skip a step, alike. What it
// queues is a graph from the second step on. Used by one thread.
class DeviceUpdate {
 public:
  // `communicator`, of device memory unless the device is emulated, is null for a rank alone. All
  // outlive this.
  static absl::StatusOr<std::unique_ptr<DeviceUpdate>> Create(const DeviceTrainerOptions& options,
                                                              DevicePasses& passes,
                                                              DeviceSpaces& spaces,
                                                              Communicator* communicator);
  // Waits for the device.
  ~DeviceUpdate();

  // Zeroes the gradients, which come multiplied by `loss_scale`.
  absl::Status Begin(float loss_scale);

  // All that backward adds to the gradients of `unit`, and so of all units after it, has been
  // called: starts the buckets that are complete.
  void UnitReady(int unit);

  // Sums gradients and `examples` over ranks and moves the weights, as step number `step`, from 1.
  // Waits once. After an error of a collective call weights and moments are as before.
  absl::StatusOr<DeviceUpdateResult> Run(uint64_t examples, float learning_rate, uint64_t step);

  // Of what the communicator moved, what was not gradients.
  CollectiveTraffic sums_traffic() const { return sums_traffic_; }

 private:
  struct Pinned;

  DeviceUpdate(const DeviceTrainerOptions& options, DevicePasses& passes, DeviceSpaces& spaces);

  Pinned& pinned() { return *reinterpret_cast<Pinned*>(pinned_.data()); }
  // Sums gradients and examples over the ranks.
  absl::Status Reduce();
  // Queue the gradients' norm and what follows from it, and the optimizer.
  void QueueDecision(DeviceStream& stream);
  void QueueOptimizer(DeviceStream& stream);
  absl::Status QueueBoth(DeviceStream& stream);

  const DeviceTrainerOptions options_;
  DevicePasses& passes_;
  DeviceSpaces& spaces_;
  DeviceBuffer pinned_;
  // The first time kernels are launched one by one: code is loaded then.
  bool ran_ = false;
  std::unique_ptr<DeviceGraph> graph_;
  // Null for a rank alone.
  Communicator* communicator_ = nullptr;
  std::unique_ptr<DeviceCallOrder> order_;
  std::unique_ptr<GradientReducer> reducer_;
  CollectiveTraffic sums_traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_
