#ifndef MUSTER_WORKER_DEVICE_DEVICE_CALL_ORDER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_CALL_ORDER_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/device.h"
#include "worker/device/device_passes.h"
#include "worker/strategy/group/call_order.h"

namespace muster {

// Two edges between passes and collective calls, which have a stream of their own: calls start
// after what passes had queued, and what is queued after LeadComputation starts after the calls.
// With a communicator of device memory (NCCL) the host does not wait for either. With one of host
// memory, as the emulated device has, the host waits, in FollowComputation.
class DeviceCallOrder final : public CallOrder {
 public:
  // `passes` outlives this.
  static absl::StatusOr<std::unique_ptr<DeviceCallOrder>> Create(DevicePasses& passes);

  absl::Status FollowComputation() override;
  void* stream() const override { return stream_->native(); }

  // Lets what is queued from now on come after the calls. Returns the calls' stream's status.
  absl::Status LeadComputation();

 private:
  DeviceCallOrder(DevicePasses& passes, std::unique_ptr<DeviceStream> stream,
                  std::unique_ptr<DeviceEvent> ready, std::unique_ptr<DeviceEvent> done)
      : passes_(passes),
        stream_(std::move(stream)),
        ready_(std::move(ready)),
        done_(std::move(done)) {}

  DevicePasses& passes_;
  const std::unique_ptr<DeviceStream> stream_;
  const std::unique_ptr<DeviceEvent> ready_;
  const std::unique_ptr<DeviceEvent> done_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_CALL_ORDER_H_
