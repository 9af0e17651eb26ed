#ifndef MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_UPDATE_H_
#define MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_UPDATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/device/device.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/passes/device_passes.h"

namespace muster {

// The device memory of an update.
struct DeviceUpdateArrays {
  // Elements of one optimizer group, with their sums of gradients.
  struct Stretch {
    int64_t elements = 0;
    bool weight_decay = true;
    // TensorSpec::sign_rate; 0: the optimizer moves them.
    float sign_rate = 0;
    DeviceAdamArrays arrays;
  };

  // This rank's sums of gradients, which are squared one span after another.
  std::vector<absl::Span<const float>> sums;
  // The weights that this rank moves.
  std::vector<Stretch> stretches;
  // For the records, from `control` to `squares_scratch`.
  DeviceState state;
};

// One step's numbers.
struct DeviceUpdateStep {
  // The number of examples of all ranks, or of their labels if examples have several.
  uint64_t examples = 0;
  // The factor that gradients come multiplied by.
  float loss_scale = 1;
  float learning_rate = 0;
  // The step's number, counted from 1.
  uint64_t step = 1;
  // The sum of squares of all ranks' sums. Absent: this rank's are all. Always there or never.
  absl::optional<double> squares;
};

// What ends a step on a device: sums of gradients over examples are divided once by the number of
// all, and clipped by global norm; Adam or AdamW moves the weights. From the same numbers all ranks
// move, or skip a step, alike. What it queues is a graph from the second step on. Used by one
// thread.
class DeviceUpdate {
 public:
  // Creates an update. `passes` outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceUpdate>> Create(const DeviceOptions& options,
                                                              DevicePasses& passes,
                                                              DeviceUpdateArrays arrays);
  // Waits for the device.
  ~DeviceUpdate() { passes_.Stop(); }

  // Returns the sum of squares of this rank's sums; not finite exactly if one of them is not. Waits
  // for the device.
  absl::StatusOr<double> SumOfSquares();

  // Moves the weights, and returns what the device decided. Waits for the device.
  absl::StatusOr<GradientControl> Run(const DeviceUpdateStep& step);

 private:
  struct Pinned;
  // Work that is queued kernel by kernel the first time, so that code is loaded then.
  struct Recorded {
    bool ran = false;
    std::unique_ptr<DeviceGraph> graph;
  };

  DeviceUpdate(const DeviceOptions& options, DevicePasses& passes, DeviceUpdateArrays arrays);

  Pinned& pinned() { return *reinterpret_cast<Pinned*>(pinned_.data()); }
  static absl::Status Queue(Recorded& recorded, DeviceStream& stream,
                            absl::FunctionRef<void()> work);
  // Queue the sums' squares, the norm and what follows from it, and the optimizer.
  void QueueSquares(DeviceStream& stream);
  void QueueDecision(DeviceStream& stream);
  void QueueOptimizer(DeviceStream& stream);

  const DeviceOptions options_;
  DevicePasses& passes_;
  const DeviceUpdateArrays arrays_;
  DeviceBuffer pinned_;
  Recorded squares_;
  Recorded update_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_UPDATE_H_
