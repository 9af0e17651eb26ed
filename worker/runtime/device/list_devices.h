#ifndef MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/runtime/device/device_lines.h"

namespace muster {

// First argument of a device program's process that is to report what devices it finds: a
// TaskReport on the control socket whose message is FormatDevices'. Of what it writes to standard
// output and error nothing is read but for errors.
inline constexpr char kListDevicesFlag[] = "--list-devices";

// The devices that `program` finds. Asked for in a process of its own, since whoever looks for GPUs
// has CUDA in it from then on. DeadlineExceeded: no answer within `timeout`. Otherwise why the
// program could not be started, or found none.
absl::StatusOr<FoundDevices> ListDevices(const std::string& program, absl::Duration timeout);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_LIST_DEVICES_H_
