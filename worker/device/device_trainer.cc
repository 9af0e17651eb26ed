#include "worker/device/device_trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "worker/device/await_device.h"
#include "worker/device/device_backend.h"
#include "worker/device/device_memory_plan.h"
#include "worker/models/transformer.h"
#include "worker/nn/layer_context.h"

namespace muster {
absl::StatusOr<std::unique_ptr<DeviceTrainer>> DeviceTrainer::Create(
    const DeviceTrainerOptions& options, Communicator* communicator) {
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options, communicator == nullptr ? 1 : communicator->size()));
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters parameters, DeviceParameters::Create(options.shape));
  const DeviceExtents extents = DeviceExtentsOf(options.shape, parameters, options.compute);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DevicePasses> passes,
                          DevicePasses::Create(options.shape, options.compute, extents));
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceSpaces> spaces,
      DeviceSpaces::Create(std::move(parameters), options.compute, extents, passes->stream()));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceUpdate> update,
                          DeviceUpdate::Create(options, *passes, *spaces, communicator));
  std::unique_ptr<DeviceTrainer> trainer(
      new DeviceTrainer(options, std::move(passes), std::move(spaces), std::move(update)));
  trainer->bytes_ = PlanDeviceMemory(extents);
  return trainer;
}

DeviceTrainer::DeviceTrainer(const DeviceTrainerOptions& options,
                             std::unique_ptr<DevicePasses> passes,
                             std::unique_ptr<DeviceSpaces> spaces,
                             std::unique_ptr<DeviceUpdate> update)
    : options_(options),
      passes_(std::move(passes)),
      spaces_(std::move(spaces)),
      update_(std::move(update)),
      model_(MakeTransformer(options.shape, options.compute.type, options.compute.recompute,
                             std::make_unique<DeviceBackend>(*passes_))),
      micro_batch_(model_->NewMicroBatch()) {
  if (options.compute.type == DType::kF16) {
    loss_scaler_.emplace(options.loss_scale.fixed, options.loss_scale.window);
  }
}

absl::Status DeviceTrainer::Read(DeviceSpace space, int tensor, absl::Span<float> values) {
  MUSTER_RETURN_IF_ERROR(spaces_->Read(passes_->stream(), space, tensor, values));
  const float scale = loss_scale_of_step_;
  if (space != DeviceSpace::kGradients || scale == 1) return absl::OkStatus();
  for (float& value : values) value /= scale;
  return absl::OkStatus();
}

absl::Status DeviceTrainer::Write(DeviceSpace space, int tensor, absl::Span<const float> values) {
  return spaces_->Write(passes_->stream(), space, tensor, values);
}

absl::Status DeviceTrainer::WriteInitialValues(uint64_t seed) {
  return spaces_->WriteInitialValues(passes_->stream(), seed);
}

absl::Status DeviceTrainer::ShareState(int root) {
  MUSTER_ASSIGN_OR_RETURN(steps_, update_->Share(root, steps_));
  if (loss_scaler_.has_value()) {
    loss_scaler_.emplace(options_.loss_scale.fixed, options_.loss_scale.window);
  }
  return absl::OkStatus();
}

absl::Status DeviceTrainer::RunMicroBatch(const Batch& batch, uint64_t first_example,
                                          absl::FunctionRef<void(int unit)> ready) {
  // BeginStep has zeroed the gradients.
  const LayerContext context = {.seed = options_.seed,
                                .clock = clock_,
                                .first_example = first_example,
                                .loss_scale = loss_scale_of_step_,
                                .gradients = Accumulation::kAdd};
  const ModelParameters parameters = spaces_->parameters();
  const GradientSpans gradients = spaces_->gradients();
  MUSTER_RETURN_IF_ERROR(model_->Load(batch, *micro_batch_));
  const int last_unit = options_.shape.units() - 1;
  for (int unit = 0; unit < last_unit; ++unit) {
    MUSTER_RETURN_IF_ERROR(model_->Forward(context, unit, parameters, *micro_batch_));
  }
  MUSTER_RETURN_IF_ERROR(model_->RunLastUnit(context, parameters, gradients, *micro_batch_));
  ready(last_unit);
  for (int unit = last_unit - 1; unit >= 0; --unit) {
    MUSTER_RETURN_IF_ERROR(model_->Backward(context, unit, parameters, gradients, *micro_batch_));
    ready(unit);
  }
  return absl::OkStatus();
}

absl::Status DeviceTrainer::WarmUp() {
  return passes_->WarmUp([this](const Batch& batch) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(BeginStep(0));
    return RunMicroBatch(batch, /*first_example=*/0, [](int unit) {});
  });
}

absl::Status DeviceTrainer::BeginStep(uint64_t clock) {
  clock_ = clock;
  loss_scale_of_step_ = loss_scale();
  return update_->Begin(loss_scale_of_step_);
}

absl::Status DeviceTrainer::AddMicroBatch(const Batch& batch, uint64_t first_example,
                                          SeriesPosition position) {
  const bool last = position == SeriesPosition::kLast;
  return RunMicroBatch(batch, first_example, [&](int unit) {
    if (last) update_->UnitReady(unit);
  });
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::ResultOf(const DeviceUpdateResult& update) {
  DeviceStepResult result;
  result.loss_sum = update.sums.loss;
  result.tokens = static_cast<int64_t>(update.sums.tokens);
  result.correct = static_cast<int64_t>(update.sums.correct);
  result.gradient_norm = update.gradient_norm;
  result.skipped = update.skipped;
  if (result.tokens == 0) return result;
  if (!result.skipped) {
    if (loss_scaler_.has_value()) loss_scaler_->Succeeded();
    return result;
  }
  if (!loss_scaler_.has_value() || !loss_scaler_->Overflowed()) {
    return absl::OutOfRangeError(absl::StrCat(
        "diverged at step ", clock_ + 1, ": the gradient's norm is ", result.gradient_norm,
        ", the loss ", result.loss_sum / result.tokens, "; lower the learning rate"));
  }
  return result;
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::EndStep(float learning_rate) {
  MUSTER_ASSIGN_OR_RETURN(const DeviceUpdateResult update, update_->Run(learning_rate, steps_ + 1));
  MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult result, ResultOf(update));
  if (!result.skipped) ++steps_;
  return result;
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::TakeGradients() {
  MUSTER_ASSIGN_OR_RETURN(const DeviceUpdateResult update, update_->RunWithoutWeights());
  return ResultOf(update);
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::Evaluate(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(model_->Load(batch, *micro_batch_));
  for (int unit = 0; unit < options_.shape.units(); ++unit) {
    MUSTER_RETURN_IF_ERROR(
        model_->Forward({.pass = Pass::kEvaluation}, unit, spaces_->parameters(), *micro_batch_));
  }
  MUSTER_RETURN_IF_ERROR(model_->TakeResults(*micro_batch_));
  DeviceStepResult result;
  result.loss_sum = micro_batch_->loss_sum;
  result.tokens = micro_batch_->loss_weight;
  result.correct = micro_batch_->correct;
  return result;
}

}  // namespace muster
