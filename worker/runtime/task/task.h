#ifndef MUSTER_WORKER_RUNTIME_TASK_TASK_H_
#define MUSTER_WORKER_RUNTIME_TASK_TASK_H_

#include "absl/status/status.h"
#include "worker/runtime/task/task_dependencies.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// Runs one slot of a job from its order to its end: opens the data, meets the other slots, and
// trains on the order's servers, by all-reduce, or by both. Blocks, and computes on the calling
// thread (and its OpenMP team). Errors: those of PrepareJob, of the rendezvous, of Trainer::Run and
// of AllReduceTask::Run. InvalidArgument: the job asks for dense tables on servers beside sparse
// ones by all-reduce.
absl::Status RunTask(const v1::TaskOrder& order, const TaskDependencies& dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_TASK_H_
