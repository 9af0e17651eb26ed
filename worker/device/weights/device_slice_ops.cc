#include "worker/device/weights/device_slice_ops.h"

#include <cstdint>

#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceSliceOps>> DeviceSliceOps::Create(
    std::function<DeviceStream&()> computation) {
  MUSTER_ASSIGN_OR_RETURN(auto calls, DeviceStream::Create());
  MUSTER_ASSIGN_OR_RETURN(auto ready, DeviceEvent::Create());
  MUSTER_ASSIGN_OR_RETURN(auto done, DeviceEvent::Create());
  return std::unique_ptr<DeviceSliceOps>(new DeviceSliceOps(
      std::move(computation), std::move(calls), std::move(ready), std::move(done)));
}

void DeviceSliceOps::Copy(absl::Span<const float> from, float* to) {
  if (from.empty()) return;
  computation_().CopyOnDevice(to, from.data(), from.size() * sizeof(float));
}

void DeviceSliceOps::Add(absl::Span<const float> from, float* to) {
  if (from.empty()) return;
  DeviceAdd(computation_(), static_cast<int64_t>(from.size()), from.data(), to);
}

void DeviceSliceOps::Zero(absl::Span<float> values) {
  if (values.empty()) return;
  computation_().Fill(values.data(), 0, values.size() * sizeof(float));
}

void DeviceSliceOps::Round(DType type, absl::Span<const float> from, void* to) {
  if (from.empty()) return;
  DeviceConvert(computation_(), static_cast<int64_t>(from.size()), DType::kF32, from.data(), type,
                to);
}

absl::Status DeviceSliceOps::FollowComputation() {
  DeviceStream& computation = computation_();
  computation.Record(*ready_);
  calls_->Wait(*ready_);
  MUSTER_RETURN_IF_ERROR(computation.status());
  return calls_->native() == nullptr ? calls_->Synchronize() : absl::OkStatus();
}

absl::Status DeviceSliceOps::LeadComputation() {
  calls_->Record(*done_);
  computation_().Wait(*done_);
  return calls_->status();
}

}  // namespace muster
