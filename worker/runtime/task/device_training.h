#ifndef MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_
#define MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/runtime/task/task_dependencies.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/replica_group.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// A replica that is trained with other ranks', and what computes its steps.
struct ReplicaParts {
  std::unique_ptr<ReplicaGroup> group;
  // For one group of the replica, after it was joined. Errors: none but the computation's own.
  std::function<absl::StatusOr<std::unique_ptr<StepEngine>>()> make_engine;
};

// How tasks train on a device. Only programs that are linked with devices have one, so that all
// others do without their libraries.
class DeviceTraining {
 public:
  virtual ~DeviceTraining() = default;

  // For parameters that a strategy moves, which outlives the engine.
  virtual absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(
      const v1::TaskOrder& order, const PreparedJob& job, Strategy& strategy,
      const TaskDependencies& dependencies) = 0;

  // For parameters that stay on the devices of all ranks.
  virtual absl::StatusOr<ReplicaParts> MakeReplica(const v1::TaskOrder& order,
                                                   const PreparedJob& job,
                                                   const TaskDependencies& dependencies) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_
