#include "worker/runtime/device/device_step_engine.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/nn/diverged_error.h"
#include "worker/runtime/device/device_passes.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceStepEngine>> DeviceStepEngine::Create(
    Strategy& strategy, const DeviceTrainerOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceTrainer> trainer,
                          DeviceTrainer::Create(options, nullptr));
  // A device computes faster on zeros than on real weights, so the warm-up uses initial values.
  MUSTER_RETURN_IF_ERROR(trainer->WriteInitialValues(options.seed));
  MUSTER_RETURN_IF_ERROR(trainer->WarmUp());
  return std::unique_ptr<DeviceStepEngine>(
      new DeviceStepEngine(strategy, options, std::move(trainer)));
}

DeviceStepEngine::DeviceStepEngine(Strategy& strategy, const DeviceTrainerOptions& options,
                                   std::unique_ptr<DeviceTrainer> trainer)
    : strategy_(strategy),
      most_examples_(options.compute.sequences),
      trainer_(std::move(trainer)),
      tensors_(options.shape.units()) {
  const std::vector<TensorSpec>& specs = trainer_->parameters().tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (specs[t].tied_to.empty()) tensors_[specs[t].unit].push_back(static_cast<int>(t));
  }
}

absl::Status DeviceStepEngine::FetchParameters(uint64_t clock) {
  MUSTER_RETURN_IF_ERROR(strategy_.BeginStep(clock));
  for (size_t unit = 0; unit < tensors_.size(); ++unit) {
    MUSTER_RETURN_IF_ERROR(strategy_.Acquire(static_cast<int>(unit), Direction::kForward));
    for (int tensor : tensors_[unit]) {
      MUSTER_RETURN_IF_ERROR(
          trainer_->Write(DeviceSpace::kWeights, tensor, strategy_.parameters().values[tensor]));
    }
    strategy_.Release(static_cast<int>(unit), Direction::kForward);
  }
  return absl::OkStatus();
}

absl::Status DeviceStepEngine::Train(uint64_t clock, MicroBatchSource& micro_batches,
                                     StepSums& sums) {
  MUSTER_RETURN_IF_ERROR(FetchParameters(clock));
  trainer_->set_loss_scale(strategy_.loss_scale());
  MUSTER_RETURN_IF_ERROR(QueueStep(*trainer_, clock, micro_batches, batch_, sums));
  MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult result, trainer_->TakeGradients());
  if (!std::isfinite(result.loss_sum)) {
    return DivergedError(clock, absl::StrCat("loss is ", result.loss_sum));
  }
  sums.loss_sum += result.loss_sum;
  MUSTER_RETURN_IF_ERROR(strategy_.BeforeBackward(result.tokens, SeriesPosition::kLast));
  MUSTER_RETURN_IF_ERROR(SendGradients());
  return strategy_.EndStep();
}

absl::Status DeviceStepEngine::SendGradients() {
  for (int unit = static_cast<int>(tensors_.size()) - 1; unit >= 0; --unit) {
    for (int tensor : tensors_[unit]) {
      MUSTER_RETURN_IF_ERROR(
          trainer_->Read(DeviceSpace::kGradients, tensor, strategy_.gradients()[tensor]));
    }
    MUSTER_RETURN_IF_ERROR(strategy_.GradientReady(unit));
  }
  return absl::OkStatus();
}

absl::Status DeviceStepEngine::Evaluate(const Batch& batch, PassResult& result) {
  return EvaluateOnDevice(*trainer_, batch, result);
}

}  // namespace muster
