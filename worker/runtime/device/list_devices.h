#ifndef MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/runtime/device/device_lines.h"

namespace muster {

// First argument that makes a device program report the devices it finds, in a TaskReport on the
// control socket whose message is the text of FormatDevices. Other output is only read for error
// messages.
inline constexpr char kListDevicesFlag[] = "--list-devices";

// Returns the devices that `program` finds. The program runs in its own process, since CUDA stays
// in a process that has looked for GPUs. DeadlineExceeded: no answer within `timeout`. Otherwise
// the error with which the program failed to start or to find devices.
absl::StatusOr<FoundDevices> ListDevices(const std::string& program, absl::Duration timeout);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_
