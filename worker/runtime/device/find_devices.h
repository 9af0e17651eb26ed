#ifndef MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_

#include "absl/status/statusor.h"
#include "worker/runtime/device/device_lines.h"

namespace muster {

// Finds the devices of the kind that the program is linked with. Devices are not opened, so this
// takes no device memory. A device that cannot be used does not change the others' numbers. Errors
// are those of CountDevices or, if no device can be used, the first device's.
absl::StatusOr<FoundDevices> FindDevices();

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_
