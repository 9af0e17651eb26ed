#include "worker/device/device_call_order.h"

#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceCallOrder>> DeviceCallOrder::Create(DevicePasses& passes) {
  MUSTER_ASSIGN_OR_RETURN(auto stream, DeviceStream::Create());
  MUSTER_ASSIGN_OR_RETURN(auto ready, DeviceEvent::Create());
  MUSTER_ASSIGN_OR_RETURN(auto done, DeviceEvent::Create());
  return std::unique_ptr<DeviceCallOrder>(
      new DeviceCallOrder(passes, std::move(stream), std::move(ready), std::move(done)));
}

absl::Status DeviceCallOrder::FollowComputation() {
  DeviceStream& computation = passes_.stream();
  computation.Record(*ready_);
  stream_->Wait(*ready_);
  MUSTER_RETURN_IF_ERROR(computation.status());
  return stream_->native() == nullptr ? stream_->Synchronize() : absl::OkStatus();
}

absl::Status DeviceCallOrder::LeadComputation() {
  stream_->Record(*done_);
  passes_.stream().Wait(*done_);
  return stream_->status();
}

}  // namespace muster
