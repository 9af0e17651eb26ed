#ifndef MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/rpc/rpc_credentials.h"
#include "common/rpc/tls_files.h"
#include "worker/collectives/endpoint.h"

namespace muster {

class DeviceTraining;
class Model;
class ParameterClient;

namespace v1 {
class TaskOrder;
}  // namespace v1

// Most bytes of an order or a result on the control socket.
inline constexpr unsigned kMaxControlBytes = 64u << 20;

// Returns what trains on device number `device` of this process.
using MakeDeviceTraining = std::function<std::unique_ptr<DeviceTraining>(int device)>;

// Returns an endpoint that does more with the given one.
using WrapEndpoint =
    std::function<std::unique_ptr<CollectiveEndpoint>(std::unique_ptr<CollectiveEndpoint>)>;

// Returns a client of a server that does more with the given one.
using WrapClient =
    std::function<std::unique_ptr<ParameterClient>(std::unique_ptr<ParameterClient>)>;

// Returns a model that does more with the given one, which the task of this order trains.
using WrapModel = std::function<std::unique_ptr<const Model>(const v1::TaskOrder& order,
                                                             std::unique_ptr<const Model>)>;

// The things that a task's process has from its daemon, beside the order.
struct TaskChildOptions {
  // The options of training by all-reduce, if the task's job does that.
  HostEndpointOptions collectives;
  // The folder for optimizer state that jobs offload.
  std::string offload_folder;
  // The folder for prepared data, and how many bytes may be in it.
  std::string prepared_folder;
  uint64_t prepared_bytes = 0;
  RpcCredentials credentials;
  // The files that the credentials are of.
  TlsFiles tls;
  // Empty in a program that knows no devices.
  MakeDeviceTraining make_devices;
  // Replaces the endpoint at which a task that trains by all-reduce is reached; if empty, it is
  // used as it is. For tests.
  WrapEndpoint wrap_endpoint;
  // Replaces each client of a server; if empty, clients are used as they are. For tests.
  WrapClient wrap_client;
  // Replaces the model; if empty, it is used as it is. For tests.
  WrapModel wrap_model;
};

// Runs a task's process: reads a TaskOrder from the control socket, runs the task, and writes back
// a TaskReport with its status. Log lines go to stderr. The process ends at once when the socket
// closes, since its daemon is then gone. Returns the exit status for main: 0 once the result is
// written, whatever it is.
int RunTaskChild(int control_socket, const TaskChildOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_TASK_CHILD_H_
