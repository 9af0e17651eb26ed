#ifndef MUSTER_COMMON_COMPUTE_DEVICE_WORKSPACE_H_
#define MUSTER_COMMON_COMPUTE_DEVICE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/device/device.h"

namespace muster {

// The device memory that the operations of a stream work in, one after the other.
class DeviceWorkspace {
 public:
  // `stream` outlives this.
  DeviceWorkspace(void* data, size_t bytes, DeviceStream& stream)
      : data_(data), bytes_(bytes), stream_(stream) {}

  // Returns scratch of so many floats. Where fewer are there, fails the stream with Internal, so
  // that nothing is launched.
  float* Floats(int64_t floats) {
    if (floats * sizeof(float) > bytes_) {
      stream_.Fail(absl::InternalError(absl::StrCat("an operation takes ", floats * sizeof(float),
                                                    " bytes of scratch on the device, but ", bytes_,
                                                    " were planned")));
    }
    return static_cast<float*>(data_);
  }

 private:
  void* const data_;
  const size_t bytes_;
  DeviceStream& stream_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_DEVICE_WORKSPACE_H_
