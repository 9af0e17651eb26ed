#ifndef MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_H_
#define MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_H_

#include "absl/status/status.h"
#include "worker/device/memory/device_options.h"

namespace muster {

// Opens the device, which is the calling thread's from then on, and waits until it has the memory
// for training. Comes before everything that takes device memory, so before the task's
// `communicators` of NCCL.
//   InvalidArgument    the shape or the extents are not possible on a device, or its kernels take
//                      more shared memory than this one has; says which and why
//   ResourceExhausted  the device has less memory, without what CUDA and NCCL take for
//                      themselves; says how much of it would be for what
//   DeviceFaultError   no device, or others keep its memory
absl::Status AwaitDevice(const DeviceOptions& options, int communicators = 0);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_H_
