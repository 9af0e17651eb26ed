#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/step/stage_shape.h"
#include "worker/collectives/communicator.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/passes/device_passes.h"
#include "worker/nn/context_group.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/expert_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// The collaborators of an engine on a device.
struct DeviceEngineParts {
  // Both outlive the engine. The strategy has its parameters on the same device.
  DevicePasses& passes;
  Strategy& strategy;
  // The ranks that compute layers together with this one, and those that share out sequences or
  // experts with it, which outlive the engine; null: this rank alone.
  TensorGroup* tensor_group = nullptr;
  ContextGroup* context_group = nullptr;
  ExpertGroup* expert_group = nullptr;
  // The data ranks that count choices of experts together with this one, as above.
  CountingGroup* counting_group = nullptr;
  // The stage that the rank is, whose the options are (TakeStage); absent: that of all units.
  absl::optional<ModelStage> stage = absl::nullopt;
  // The communicator of the stages, of device memory unless the device is emulated; it outlives the
  // engine. Null: there is one stage.
  Communicator* stages = nullptr;
  // What the engine takes over, such as the strategy.
  std::unique_ptr<Strategy> owned = nullptr;
};

// Returns a step executor over a model of the job on a device, which it has warmed up; a collective
// call of the stages, if there are several. Errors are those of the device and of that
// communicator.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeDeviceEngine(const v1::JobSpec& spec,
                                                             const DeviceOptions& options,
                                                             DeviceEngineParts parts);

// Returns the same for a strategy whose parameters are not on the device (CopyingStrategy). Also
// errors of AwaitDevice.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeCopyingDeviceEngine(const v1::JobSpec& spec,
                                                                    const DeviceOptions& options,
                                                                    Strategy& strategy);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_ENGINE_H_
