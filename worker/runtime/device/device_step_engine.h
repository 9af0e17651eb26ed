#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/device_trainer.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

// Computes a transformer on a device while a strategy keeps its parameters in the host's memory or
// on servers, with any optimizer. Each step copies all parameters to the device and all gradients
// back, 8 bytes a parameter, and pushes only what the whole of backward has left: simple, and good
// enough where servers are the narrower way. device_replica_engine.h keeps everything on the
// device.
class DeviceStepEngine final : public StepEngine {
 public:
  struct Options {
    DeviceTrainerOptions device;
    // For the log.
    uint32_t slot = 0;
    // One line for the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // The strategy outlives the engine. Errors: those of DeviceTrainer::Create.
  static absl::StatusOr<std::unique_ptr<DeviceStepEngine>> Create(Strategy& strategy,
                                                                  Options options);

  int64_t most_examples() const override { return options_.device.compute.sequences; }
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override { return FetchParameters(clock); }
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;
  LossScaler* loss_scaler() override { return trainer_->loss_scaler(); }

 private:
  DeviceStepEngine(Strategy& strategy, Options options, std::unique_ptr<DeviceTrainer> trainer);

  // The clock's parameters, from the strategy to the device.
  absl::Status FetchParameters(uint64_t clock);
  // The device's gradients to the strategy, the last unit's first.
  absl::Status SendGradients();
  // Of a step that overflowed, or has no labels.
  absl::Status SendNothing();
  // REQUIRES: f16, which alone skips steps that have labels.
  void LogOverflow(uint64_t clock, float loss_scale);

  Strategy& strategy_;
  const Options options_;
  const std::unique_ptr<DeviceTrainer> trainer_;
  // Tensors of each layer unit that have values of their own.
  std::vector<std::vector<int>> tensors_;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_
