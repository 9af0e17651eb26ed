#ifndef MUSTER_COMMON_COMPUTE_DEVICE_COMPUTE_STREAM_H_
#define MUSTER_COMMON_COMPUTE_DEVICE_COMPUTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "common/compute/stream.h"
#include "common/device/device.h"

namespace muster {

// A device's stream, for those who do not know that there is a device.
class DeviceComputeStream final : public ComputeStream {
 public:
  // `stream` outlives this.
  explicit DeviceComputeStream(DeviceStream& stream) : stream_(stream) {}

  void CopyIn(void* to, const void* from, size_t bytes) override {
    stream_.CopyToDevice(to, from, bytes);
  }
  void CopyOut(void* to, const void* from, size_t bytes) override {
    stream_.CopyToHost(to, from, bytes);
  }
  void Fill(void* to, uint8_t value, size_t bytes) override { stream_.Fill(to, value, bytes); }
  absl::Status Synchronize() override { return stream_.Synchronize(); }
  absl::Status status() const override { return stream_.status(); }
  void Fail(absl::Status status) override { stream_.Fail(std::move(status)); }

 private:
  DeviceStream& stream_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_DEVICE_COMPUTE_STREAM_H_
