#include "worker/nn/loss_scaling.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/kernels/gemm/row_sums.h"
#include "worker/nn/diverged_error.h"

namespace muster {

LossScaling::LossScaling(const v1::ComputeSpec& compute, Options options)
    : options_(std::move(options)), scaler_(LossScaler::ForJob(compute)) {}

LossScale LossScaling::StateAfter(StepEnd end) const {
  LossScaler after = *scaler_;
  if (end == StepEnd::kFinite) {
    after.Succeeded();
  } else {
    after.Overflowed();
  }
  return after.state();
}

const TensorSpec* LossScaling::Divide(absl::Span<const TensorSpec> tensors,
                                      GradientSpans gradients) const {
  if (!scaler_.has_value()) return nullptr;
  const TensorSpec* overflowed = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    // A tied tensor shares the gradient of the other, which is divided there.
    if (!tensors[i].tied_to.empty()) continue;
    const absl::Span<float> gradient = gradients[i];
    if (Unscale(gradient.size(), 1 / scale(), gradient.data())) continue;
    if (overflowed == nullptr) overflowed = &tensors[i];
  }
  return overflowed;
}

absl::Status LossScaling::TakeEnd(uint64_t clock, StepEnd end, absl::string_view what) {
  if (!scaler_.has_value()) return absl::OkStatus();
  const float before = scale();
  if (end == StepEnd::kFinite) {
    scaler_->Succeeded();
  } else if (!scaler_->Overflowed()) {
    return DivergedError(
        clock,
        absl::StrFormat(
            "%s is not finite at a loss scale of %g%s", what, before,
            scaler_->fixed() && before > 1 ? " (lower compute.loss_scale, or leave it out)" : ""));
  }
  LogEnd(clock, end, before);
  return absl::OkStatus();
}

void LossScaling::Follow(uint64_t clock, StepEnd end, const LossScale& state) {
  const float before = scale();
  if (end == StepEnd::kOverflowed) scaler_->Overflowed();
  scaler_->Restore(state);
  LogEnd(clock, end, before);
}

void LossScaling::LogEnd(uint64_t clock, StepEnd end, float scale_before) {
  if (end == StepEnd::kOverflowed) {
    options_.log(absl::StrFormat(
        "slot %d: gradients of step %d overflow at a loss scale of %g and are left out (%d such "
        "steps so far); it is %g from now on",
        options_.slot, clock + 1, scale_before, scaler_->overflows(), scale()));
  } else if (scale() != scale_before) {
    options_.log(absl::StrFormat("slot %d: the loss scale is %g after step %d", options_.slot,
                                 scale(), clock + 1));
  }
}

void LossScaling::GoOnWith(const LossScale& state) {
  if (state == scaler_->state()) return;
  scaler_->Restore(state);
  options_.log(absl::StrFormat("slot %d goes on with a loss scale of %g", options_.slot, scale()));
}

void LossScaling::Restart() {
  if (searches()) scaler_->Restore({.scale = LossScaler::kFirst, .steps = 0});
}

}  // namespace muster
