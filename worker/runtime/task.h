#ifndef MUSTER_WORKER_RUNTIME_TASK_H_
#define MUSTER_WORKER_RUNTIME_TASK_H_

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/runtime/coordinator_client.h"
#include "worker/strategy/parameter_server_strategy.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// What a task works with; all is lent.
struct TaskDependencies {
  CoordinatorClient* coordinator = nullptr;
  const Clock* clock = nullptr;
  Waiter* waiter = nullptr;
  std::function<std::unique_ptr<ParameterClient>(const std::string& address)> make_client;
  // One line for the job's log.
  std::function<void(absl::string_view)> log;
};

// One slot of a job from its order to its end: opens the data, meets the other slots, trains on the
// servers of the order. Blocks; computes on the calling thread (and its OpenMP team). Errors: those
// of PrepareJob, of the rendezvous and of Trainer::Run; Unimplemented: the job asks for a road that
// this release has not.
absl::Status RunTask(const v1::TaskOrder& order, const TaskDependencies& dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_H_
