#ifndef MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_

#include "absl/status/statusor.h"
#include "worker/runtime/device/device_lines.h"

namespace muster {

// The devices of the kind that the program is linked with, by what is known of them unopened: to
// look takes no memory of theirs. One that cannot be used leaves the others their numbers. Errors:
// CountDevices', or the first device's where none can be used.
absl::StatusOr<FoundDevices> FindDevices();

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_FIND_DEVICES_H_
