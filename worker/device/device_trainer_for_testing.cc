#include "worker/device/device_trainer_for_testing.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "worker/device/await_device.h"
#include "worker/device/device_backend.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/warm_up.h"
#include "worker/models/transformer.h"
#include "worker/nn/diverged_error.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/loss_scaler.h"

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
                             std::make_unique<DeviceBackend>(options.shape, *passes_))),
      micro_batch_(model_->NewMicroBatch()),
      loss_scale_(options.compute.type == DType::kF16 ? LossScaler::kFirst : 1) {}

absl::Status DeviceTrainer::Read(DeviceSpace space, int tensor, absl::Span<float> values) {
  return spaces_->Read(passes_->stream(), space, tensor, values);
}

absl::Status DeviceTrainer::Write(DeviceSpace space, int tensor, absl::Span<const float> values) {
  return spaces_->Write(passes_->stream(), space, tensor, values);
}

absl::Status DeviceTrainer::WriteInitialValues(uint64_t seed) {
  return spaces_->WriteInitialValues(passes_->stream(), seed);
}

absl::Status DeviceTrainer::WarmUp() {
  return muster::WarmUp(*passes_, *model_, options_.seed, spaces_->parameters(),
                        spaces_->gradients());
}

absl::Status DeviceTrainer::BeginStep(uint64_t clock) {
  clock_ = clock;
  tokens_ = 0;
  return update_->Begin(loss_scale_);
}

absl::Status DeviceTrainer::AddMicroBatch(const Batch& batch, uint64_t first_example,
                                          SeriesPosition position) {
  const LayerContext context = {.seed = options_.seed,
                                .clock = clock_,
                                .first_example = first_example,
                                .loss_scale = loss_scale_};
  const ModelParameters parameters = spaces_->parameters();
  const GradientSpans gradients = spaces_->gradients();
  const auto ready = [&](int unit) {
    if (position == SeriesPosition::kLast) update_->UnitReady(unit);
  };
  MUSTER_RETURN_IF_ERROR(model_->Load(batch, *micro_batch_));
  tokens_ += micro_batch_->loss_weight;
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

absl::StatusOr<DeviceStepResult> DeviceTrainer::EndStep(float learning_rate) {
  MUSTER_ASSIGN_OR_RETURN(const DeviceUpdateResult update,
                          update_->Run(tokens_, learning_rate, steps_ + 1));
  MUSTER_RETURN_IF_ERROR(model_->TakeResults(*micro_batch_));
  if (update.skipped && update.examples > 0 && options_.compute.type != DType::kF16) {
    return DivergedError(clock_, absl::StrCat("the gradient's norm is ", update.gradient_norm));
  }
  if (!update.skipped) ++steps_;
  return DeviceStepResult{.loss_sum = micro_batch_->loss_sum,
                          .correct = micro_batch_->correct,
                          .tokens = static_cast<int64_t>(update.examples),
                          .gradient_norm = update.gradient_norm,
                          .skipped = update.skipped};
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
