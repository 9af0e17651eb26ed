#include "worker/device/weights/copying_strategy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "worker/device/memory/await_device.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/nn/diverged_error.h"

namespace muster {

absl::StatusOr<std::unique_ptr<CopyingStrategy>> CopyingStrategy::Create(
    Strategy& inner, const DeviceOptions& options) {
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options));
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters places,
                          DeviceParameters::Create(options.shape, options.shares));
  const DeviceExtents extents = DeviceExtentsOf(options.shape, places, options.compute);
  std::unique_ptr<CopyingStrategy> strategy(
      new CopyingStrategy(inner, options.compute.type == DType::kF16));
  MUSTER_ASSIGN_OR_RETURN(strategy->passes_,
                          DevicePasses::Create(options.shape, options.compute, extents));
  DeviceStream& stream = strategy->passes_->stream();
  MUSTER_ASSIGN_OR_RETURN(
      strategy->spaces_, DeviceSpaces::Create(std::move(places), options.compute, extents, stream));
  MUSTER_RETURN_IF_ERROR(strategy->spaces_->WriteInitialValues(stream, options.seed));
  MUSTER_ASSIGN_OR_RETURN(strategy->copies_, DeviceStream::Create());
  strategy->units_.resize(options.shape.units());
  for (Unit& unit : strategy->units_) {
    MUSTER_ASSIGN_OR_RETURN(unit.ready, DeviceEvent::Create());
  }
  const std::vector<TensorSpec>& specs = strategy->spaces_->places().tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (!specs[t].tied_to.empty()) continue;
    strategy->units_[specs[t].unit].tensors.push_back(static_cast<int>(t));
  }
  return strategy;
}

CopyingStrategy::~CopyingStrategy() {
  if (passes_ != nullptr) passes_->Stop();
}

absl::Status CopyingStrategy::BeginStep(uint64_t clock) {
  clock_ = clock;
  examples_ = 0;
  for (Unit& unit : units_) unit.copied = false;
  if (!std::exchange(gradients_are_zero_, true)) spaces_->ZeroGradients(passes_->stream());
  return inner_.BeginStep(clock);
}

absl::Status CopyingStrategy::Acquire(int unit, Direction direction) {
  if (std::exchange(units_[unit].copied, true)) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(inner_.Acquire(unit, Direction::kForward));
  DeviceStream& stream = passes_->stream();
  for (const int tensor : units_[unit].tensors) {
    spaces_->CopyWeights(stream, tensor, inner_.parameters().values[tensor]);
  }
  inner_.Release(unit, Direction::kForward);
  return stream.status();
}

absl::Status CopyingStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  examples_ += examples;
  position_ = position;
  gradients_are_zero_ = false;
  // To the inner strategy the step is one micro-batch, after one pass forward.
  if (position == SeriesPosition::kMoreFollow) return absl::OkStatus();
  return inner_.BeforeBackward(examples_, position);
}

absl::Status CopyingStrategy::GradientReady(int unit) {
  if (position_ == SeriesPosition::kMoreFollow) return absl::OkStatus();
  passes_->stream().Record(*units_[unit].ready);
  const absl::optional<int> last = std::exchange(ready_, unit);
  return last.has_value() ? Send(*last) : absl::OkStatus();
}

absl::Status CopyingStrategy::Send(int unit) {
  copies_->Wait(*units_[unit].ready);
  for (const int tensor : units_[unit].tensors) {
    const absl::Span<float> to = inner_.gradients()[tensor];
    copies_->CopyToHost(to.data(), spaces_->gradients()[tensor].data(), to.size() * sizeof(float));
  }
  MUSTER_RETURN_IF_ERROR(copies_->Synchronize());
  for (const int tensor : units_[unit].tensors) {
    const absl::Span<const float> gradient = inner_.gradients()[tensor];
    if (scales_ || AllFinite(static_cast<int64_t>(gradient.size()), gradient.data())) continue;
    return DivergedError(
        clock_, absl::StrCat("the gradient of ", spaces_->places().tensors().specs[tensor].name,
                             " is not finite"));
  }
  return inner_.GradientReady(unit);
}

absl::Status CopyingStrategy::EndStep() {
  // The head's gradient is a tied embedding's, too, and complete with the first unit.
  MUSTER_RETURN_IF_ERROR(Send(*std::exchange(ready_, absl::nullopt)));
  MUSTER_RETURN_IF_ERROR(passes_->Wait());
  return inner_.EndStep();
}

}  // namespace muster
