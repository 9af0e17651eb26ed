#ifndef MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_
#define MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/runtime/task/task_dependencies.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// The parts that a rank trains with in one group of ranks after another, and its step engines.
struct ReplicaParts {
  std::unique_ptr<ReplicaGroup> group;
  // Makes the engine for the group that the replica has joined, which may be a collective call; the
  // engine lives as long as the group. Errors are those of the computation and the communicator's.
  std::function<absl::StatusOr<std::unique_ptr<StepEngine>>()> make_engine;
  // Ends waits for others that no call of the group ends, because the group is to be left. For any
  // thread. Null: there are none.
  std::function<void(absl::string_view reason)> end_waits;
};

// Makes the parts with which tasks train on a device. Only programs that are linked with devices
// have one, so the others need no device libraries.
class DeviceTraining {
 public:
  virtual ~DeviceTraining() = default;

  // Makes an engine for parameters that `strategy` moves. `strategy` outlives the engine.
  virtual absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(
      const v1::TaskOrder& order, const PreparedJob& job, Strategy& strategy,
      const TaskDependencies& dependencies) = 0;

  // Makes a replica whose parameters stay on the device of each rank.
  virtual absl::StatusOr<ReplicaParts> MakeReplica(const v1::TaskOrder& order,
                                                   const PreparedJob& job,
                                                   const TaskDependencies& dependencies) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_DEVICE_TRAINING_H_
