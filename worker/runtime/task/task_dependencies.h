#ifndef MUSTER_WORKER_RUNTIME_TASK_TASK_DEPENDENCIES_H_
#define MUSTER_WORKER_RUNTIME_TASK_TASK_DEPENDENCIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

class DeviceTraining;
class Model;

namespace v1 {
class TaskOrder;
class TraceOrder;
}  // namespace v1

// The collaborators of a task. Everything outlives the task.
struct TaskDependencies {
  CoordinatorClient* coordinator = nullptr;
  const Clock* clock = nullptr;
  Waiter* waiter = nullptr;
  std::function<std::unique_ptr<ParameterClient>(const std::string& address)> make_client;
  // Memory that servers of this machine read and write without copies; null if there is none.
  std::shared_ptr<RegisteredMemory> registered_memory;
  // Storage of checkpoints, for tasks that train by all-reduce or push 16-bit gradients to servers.
  CheckpointStorage* storage = nullptr;
  // The folder for optimizer state that jobs offload, on a disk.
  std::string offload_folder;
  // The folder for token files that tasks make of other sources, and how many bytes may be in it.
  // Empty: such sources are refused.
  std::string prepared_folder;
  uint64_t prepared_bytes = 0;
  // Makes the endpoint at which other tasks reach this one. Only used to train in rounds.
  std::function<absl::StatusOr<std::unique_ptr<CollectiveEndpoint>>()> make_endpoint;
  // Replaces the model that the task trains; null: it is used as it is.
  std::function<std::unique_ptr<const Model>(const v1::TaskOrder&, std::unique_ptr<const Model>)>
      wrap_model;
  // Null in a program that knows no devices.
  DeviceTraining* devices = nullptr;
  // Takes the order to trace that stands, again and again; null: the task is not traced.
  std::function<void(const v1::TraceOrder&)> traced;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_TASK_DEPENDENCIES_H_
