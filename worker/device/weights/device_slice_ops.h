#ifndef MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SLICE_OPS_H_
#define MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SLICE_OPS_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/device.h"
#include "worker/strategy/group/gradients/slice_ops.h"

namespace muster {

// Arithmetic on slices in device memory, queued on the computation's stream, and two edges between
// the computation and collective calls, which have a stream of their own: calls start after what
// the computation had queued, and what is queued after LeadComputation starts after the calls. With
// a communicator of device memory (NCCL) the host does not wait for either. With one of host
// memory, as the emulated device has, the host waits, in FollowComputation.
class DeviceSliceOps final : public SliceOps {
 public:
  // `computation` returns the computation's stream once everything that was put off is queued there
  // (DevicePasses::stream).
  static absl::StatusOr<std::unique_ptr<DeviceSliceOps>> Create(
      std::function<DeviceStream&()> computation);

  void Copy(absl::Span<const float> from, float* to) override;
  void Add(absl::Span<const float> from, float* to) override;
  void Zero(absl::Span<float> values) override;
  void Round(DType type, absl::Span<const float> from, void* to) override;
  absl::Status FollowComputation() override;
  void* stream() const override { return calls_->native(); }

  // Lets what is queued from now on come after the calls. Returns the calls' stream's status.
  absl::Status LeadComputation();

 private:
  DeviceSliceOps(std::function<DeviceStream&()> computation, std::unique_ptr<DeviceStream> calls,
                 std::unique_ptr<DeviceEvent> ready, std::unique_ptr<DeviceEvent> done)
      : computation_(std::move(computation)),
        calls_(std::move(calls)),
        ready_(std::move(ready)),
        done_(std::move(done)) {}

  const std::function<DeviceStream&()> computation_;
  const std::unique_ptr<DeviceStream> calls_;
  const std::unique_ptr<DeviceEvent> ready_;
  const std::unique_ptr<DeviceEvent> done_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SLICE_OPS_H_
