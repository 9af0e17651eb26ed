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

// A step engine that computes a transformer on a device while a strategy keeps the parameters in
// host memory or on servers, with any optimizer. Each step copies all parameters to the device and
// all gradients back, 8 bytes a parameter, and pushes only after the whole backward pass. This is
// simple, and enough if servers are the bottleneck. device_replica_engine.h avoids the copies.
class DeviceStepEngine final : public StepEngine {
 public:
  struct Options {
    DeviceTrainerOptions device;
    // Named in log lines.
    uint32_t slot = 0;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // `strategy` outlives the engine. Errors are those of DeviceTrainer::Create.
  static absl::StatusOr<std::unique_ptr<DeviceStepEngine>> Create(Strategy& strategy,
                                                                  Options options);

  int64_t most_examples() const override { return options_.device.compute.sequences; }
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override { return FetchParameters(clock); }
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;
  LossScaler* loss_scaler() override { return trainer_->loss_scaler(); }

 private:
  DeviceStepEngine(Strategy& strategy, Options options, std::unique_ptr<DeviceTrainer> trainer);

  // Copies the clock's parameters from the strategy to the device.
  absl::Status FetchParameters(uint64_t clock);
  // Copies the device's gradients to the strategy, last unit first.
  absl::Status SendGradients();
  // Ends a step that overflowed or has no labels.
  absl::Status SendNothing();
  // REQUIRES: the job computes in f16; only f16 jobs skip steps with labels.
  void LogOverflow(uint64_t clock, float loss_scale);

  Strategy& strategy_;
  const Options options_;
  const std::unique_ptr<DeviceTrainer> trainer_;
  // Tensors of each unit, without tied ones.
  std::vector<std::vector<int>> tensors_;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_STEP_ENGINE_H_
