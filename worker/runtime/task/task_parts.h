#ifndef MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_
#define MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_

#include "absl/time/time.h"
#include "worker/runtime/task/task_dependencies.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/trainer.h"
#include "worker/strategy/shard_router.h"

namespace muster {

namespace v1 {
class RendezvousReply;
class RendezvousRequest;
class TaskOrder;
}  // namespace v1

// What tasks of both roads have in common.

// What a slot brings to a meeting on either road: what must be equal on all.
v1::RendezvousRequest MeetingRequest(const PreparedJob& job);

// How a strategy reaches the servers.
ShardRouterDependencies RoutingOf(const TaskDependencies& dependencies);

// How long the task waits in a collective call for others that do not come.
absl::Duration StallTimeoutOf(const v1::TaskOrder& order);

// `meeting` is the answer to the slot's last Rendezvous.
TrainerOptions TrainerOptionsFor(const v1::TaskOrder& order, const v1::RendezvousReply& meeting,
                                 const TaskDependencies& dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_
