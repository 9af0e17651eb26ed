#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_STATUS_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_STATUS_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Convert a result of CUDA or NCCL to a status that says what was tried:
//   ResourceExhausted  no device memory
//   DeviceFaultError   this rank's device has failed, or there is none
//   Unavailable        another rank's NCCL has failed or gone
//   InvalidArgument    a wrong argument of ours reached the library
//   Internal           anything else of NCCL's
absl::Status CudaStatus(cudaError_t result, absl::string_view what);

// ncclInProgress counts as success. `comm` may be null; it only makes the message better.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t comm, absl::string_view what);

// Makes a device the thread's current one while this object lives. For callers' threads; our own
// set theirs for good, because returning to a device that was never set makes a context on device
// 0.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device);
    device_ = device;
  }
  ~DeviceScope() {
    if (before_ != device_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  int device_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_STATUS_H_
