#ifndef MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_

#include <functional>
#include <memory>

#include "common/rpc/rpc_credentials.h"
#include "worker/collectives/endpoint.h"

namespace muster {

class DeviceTraining;

// Bounds an order or a result on the control socket.
inline constexpr unsigned kMaxControlBytes = 64u << 20;

// What trains on device number `device` of this process.
using MakeDeviceTraining = std::function<std::unique_ptr<DeviceTraining>(int device)>;

// The whole life of a task's process: reads a TaskOrder from the control socket, runs it, writes
// back a TaskReport with the status it ended with. Trains by all-reduce, where its job does, as
// `collectives` says. Log lines go to stderr. The process ends at once when the socket closes,
// since its daemon is then gone. `make_devices` is empty in a program that knows none. Returns the
// exit status for main: 0 once the result is written, whatever it is.
int RunTaskChild(int control_socket, const HostEndpointOptions& collectives,
                 const RpcCredentials& credentials, const MakeDeviceTraining& make_devices);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_
