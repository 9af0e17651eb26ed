#ifndef MUSTER_WORKER_DEVICE_REPLICA_COPY_H_
#define MUSTER_WORKER_DEVICE_REPLICA_COPY_H_

#include "absl/status/status.h"
#include "common/device/device.h"
#include "worker/device/device_spaces.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Weights and Adam's moments between a replica in the host's memory, which has them block by block,
// and a device, which has them tensor by tensor. Clocks and numbers of steps are the caller's. Both
// wait for the device, and take as much memory as the largest tensor.
// REQUIRES: the same model; a replica of adam or adamw.
absl::Status CopyToDevice(ShardState& replica, DeviceStream& stream, DeviceSpaces& spaces);
absl::Status CopyFromDevice(DeviceStream& stream, DeviceSpaces& spaces, ShardState& replica);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_REPLICA_COPY_H_
