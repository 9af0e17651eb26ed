#ifndef MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_
#define MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/work.h"
#include "common/device/device.h"
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
  // The group's communicators, which have the same ranks.
  struct Group {
    // Sums examples, which a rank knows before backward has ended. Nobody else makes calls on it
    // between SumExamples and Run.
    Communicator& host;
    // Sums gradients. Of device memory unless the device is emulated. Null for a rank alone.
    Communicator* device = nullptr;
  };

  // Creates an update. All arguments outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceUpdate>> Create(const DeviceOptions& options,
                                                              DevicePasses& passes,
                                                              DeviceSpaces& spaces,
                                                              const Group& group);
  // Waits for the device. Calls that are under way end in Abort, for the whole group.
  ~DeviceUpdate();

  // Starts to sum `examples`, this rank's of the whole step, over the ranks. Once a step.
  void SumExamples(uint64_t examples);

  // All that backward adds to the gradients of `unit`, and so of all units after it, has been
  // called: starts the buckets that are complete.
  void UnitReady(int unit);

  // Sums gradients, which come multiplied by `loss_scale`, over ranks and moves the weights, as
  // step number `step`, from 1. Waits for the sums, if there are several ranks, and for the device.
  // After an error of a collective call weights and moments are as before. REQUIRES: SumExamples.
  absl::StatusOr<DeviceUpdateResult> Run(float loss_scale, float learning_rate, uint64_t step);

  // Returns what the sums of examples have moved.
  CollectiveTraffic examples_traffic() const { return examples_traffic_; }

 private:
  struct Pinned;

  DeviceUpdate(const DeviceOptions& options, DevicePasses& passes, DeviceSpaces& spaces,
               const Group& group);

  Pinned& pinned() { return *reinterpret_cast<Pinned*>(pinned_.data()); }
  // Waits for the sums over the ranks.
  absl::Status AwaitSums();
  // Queue the gradients' norm and what follows from it, and the optimizer.
  void QueueDecision(DeviceStream& stream);
  void QueueOptimizer(DeviceStream& stream);
  absl::Status QueueBoth(DeviceStream& stream);

  const DeviceOptions options_;
  DevicePasses& passes_;
  DeviceSpaces& spaces_;
  const Group group_;
  DeviceBuffer pinned_;
  // The first time kernels are launched one by one: code is loaded then.
  bool ran_ = false;
  std::unique_ptr<DeviceGraph> graph_;
  // Null for a rank alone.
  std::unique_ptr<DeviceCallOrder> order_;
  std::unique_ptr<GradientReducer> reducer_;
  // The step's examples: this rank's, then all ranks'.
  double examples_ = 0;
  // The call that sums examples_; null: none is under way.
  std::shared_ptr<Work> examples_sum_;
  // The traffic of the host's communicator before that call.
  CollectiveTraffic traffic_before_;
  CollectiveTraffic examples_traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_UPDATE_H_
