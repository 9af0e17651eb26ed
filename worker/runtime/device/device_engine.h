#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device_options.h"
#include "worker/device/device_passes.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns a step executor over a model of the job on a device, which it has warmed up. `strategy`
// has its parameters on the same device. `passes` and `strategy` outlive the engine, which takes
// over `owned`, so that this may be the strategy. Errors are those of the device.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeDeviceEngine(const v1::JobSpec& spec,
                                                             const DeviceOptions& options,
                                                             DevicePasses& passes,
                                                             Strategy& strategy,
                                                             std::unique_ptr<Strategy> owned);

// Returns the same for a strategy whose parameters are not on the device (CopyingStrategy). Also
// errors of AwaitDevice.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeCopyingDeviceEngine(const v1::JobSpec& spec,
                                                                    const DeviceOptions& options,
                                                                    Strategy& strategy);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_
