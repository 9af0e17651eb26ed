#ifndef MUSTER_COMMON_DEVICE_DEVICE_FAULT_H_
#define MUSTER_COMMON_DEVICE_DEVICE_FAULT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// A device has failed, or cannot be had, and this process can do nothing about it: CUDA gives a
// process no second context on a device that faulted. The task must end, for another to take its
// place, on another device where there is one. Cancelled, since among the codes after which a task
// is replaced (server/coordinator/lifecycle/recovery.h) it is the one that does not also say that a
// peer was lost, after which ranks meet again in the same processes.
inline absl::Status DeviceFaultError(absl::string_view message) {
  return absl::CancelledError(message);
}

// REQUIRES: a status of a call to a device, or to a communicator of device memory.
inline bool IsDeviceFault(const absl::Status& status) { return absl::IsCancelled(status); }

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_DEVICE_FAULT_H_
