#ifndef MUSTER_COMMON_DEVICE_CUDA_ERROR_H_
#define MUSTER_COMMON_DEVICE_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// What CUDA's runtime returned, as a status that says what was tried.
//   ResourceExhausted   no device memory
//   Unavailable         no device, or no driver
//   FailedPrecondition  the program holds no code that this device or driver can run; says what the
//                       device is and what code there is
//   Internal            a wrong call of ours: another device would say the same
//   DeviceFaultError    all else, after which CUDA gives this process no more of the device. Says
//                       so where a kernel's own mistake is the likely cause: the task that takes
//                       this one's place then fails too, whatever its device.
absl::Status CudaError(cudaError_t result, absl::string_view what);

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_CUDA_ERROR_H_
