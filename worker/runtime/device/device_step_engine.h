#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device_trainer.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"

namespace muster {

// A step engine that computes a transformer on a device while a strategy keeps the parameters in
// host memory or on servers, with any optimizer. Each step copies all parameters to the device and
// all gradients back, 8 bytes a parameter, and pushes only after the whole backward pass. This is
// simple, and enough if servers are the bottleneck. device_replica_engine.h avoids the copies.
class DeviceStepEngine final : public StepEngine {
 public:
  // `strategy` outlives the engine. Errors are those of DeviceTrainer::Create.
  static absl::StatusOr<std::unique_ptr<DeviceStepEngine>> Create(
      Strategy& strategy, const DeviceTrainerOptions& options);

  int64_t most_examples() const override { return most_examples_; }
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override { return FetchParameters(clock); }
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;

 private:
  DeviceStepEngine(Strategy& strategy, const DeviceTrainerOptions& options,
                   std::unique_ptr<DeviceTrainer> trainer);

  // Copies the clock's parameters from the strategy to the device.
  absl::Status FetchParameters(uint64_t clock);
  // Copies the device's gradients to the strategy, last unit first.
  absl::Status SendGradients();

  Strategy& strategy_;
  const int64_t most_examples_;
  const std::unique_ptr<DeviceTrainer> trainer_;
  // Tensors of each unit, without tied ones.
  std::vector<std::vector<int>> tensors_;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_
