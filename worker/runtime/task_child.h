#ifndef MUSTER_WORKER_RUNTIME_TASK_CHILD_H_
#define MUSTER_WORKER_RUNTIME_TASK_CHILD_H_

#include "common/rpc/rpc_credentials.h"
#include "worker/collectives/endpoint.h"

namespace muster {

// Bounds an order or a result on the control socket.
inline constexpr unsigned kMaxControlBytes = 64u << 20;

// The whole life of a task's process: reads a TaskOrder from the control socket, runs it, writes
// back a TaskReport with the status it ended with. Trains by all-reduce, where its job does, as
// `collectives` says. Log lines go to stderr. The process ends at once when the socket closes,
// since its daemon is then gone. Returns the exit status for main: 0 once the result is written,
// whatever it is.
int RunTaskChild(int control_socket, const HostEndpointOptions& collectives,
                 const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_CHILD_H_
