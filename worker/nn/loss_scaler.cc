#include "worker/nn/loss_scaler.h"

#include "common/base/model_limits.h"
#include "proto/job.pb.h"

namespace muster {

bool LossScaler::IsFound(const v1::ComputeSpec& compute) {
  return compute.type() == v1::ComputeSpec::F16 && compute.loss_scale() == 0;
}

absl::optional<LossScaler> LossScaler::ForJob(const v1::ComputeSpec& compute) {
  if (compute.type() != v1::ComputeSpec::F16) return absl::nullopt;
  return LossScaler(compute.loss_scale(), compute.loss_scale_window());
}

LossScaler::LossScaler(float fixed, uint32_t window)
    : fixed_(fixed != 0),
      window_(window == 0 ? kUsualWindow : window),
      scale_(fixed != 0 ? fixed : kFirst) {}

void LossScaler::Restore(const LossScale& state) {
  scale_ = state.scale;
  steps_ = state.steps;
}

void LossScaler::Succeeded() {
  if (fixed_ || ++steps_ < window_) return;
  steps_ = 0;
  if (scale_ < kMaxLossScale) scale_ *= 2;
}

bool LossScaler::Overflowed() {
  ++overflows_;
  steps_ = 0;
  if (fixed_ || scale_ <= 1) return false;
  scale_ /= 2;
  return true;
}

}  // namespace muster
