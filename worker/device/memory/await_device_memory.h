#ifndef MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_MEMORY_H_
#define MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_MEMORY_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/device/device.h"

namespace muster {

// Bytes of a device.
struct DeviceMemoryNeed {
  size_t needed = 0;
  // Bytes that the device has when it is empty.
  size_t total = 0;
  // Bytes that this process holds permanently beside what is needed: CUDA's context and NCCL's
  // communicators.
  size_t own = 0;
  // The parts of what is needed, for messages.
  std::string parts;
};

// The time that a killed process may take to give its device's memory back.
inline constexpr absl::Duration kDeviceMemoryPatience = absl::Seconds(10);

// Blocks for a while, as Waiter::Wait (common/rpc/retry.h); false: give up now.
using WaitFunction = std::function<bool(absl::Duration)>;

// Waits until so much of a device is free as `free_memory` says. The tasks of a worker daemon that
// was killed have their devices a little longer than the daemon that takes its place knows. Blocks
// for kDeviceMemoryPatience at most; not at all where `wait` is empty.
//   ResourceExhausted  an empty device has less, without this process's own
//   DeviceFaultError   others keep the memory (common/device/device_fault.h)
//   others             of free_memory
absl::Status AwaitDeviceMemory(const DeviceMemoryNeed& need,
                               absl::FunctionRef<absl::StatusOr<size_t>()> free_memory,
                               const WaitFunction& wait);

// Allocates device memory that was free a moment ago. DeviceFaultError: others have taken it
// meanwhile.
absl::StatusOr<DeviceBuffer> AllocateDeviceMemory(size_t bytes);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_AWAIT_DEVICE_MEMORY_H_
