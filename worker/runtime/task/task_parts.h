#ifndef MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_
#define MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/runtime/task/task_dependencies.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/trainer.h"
#include "worker/strategy/servers/shard_router.h"

namespace muster {

namespace v1 {
class RendezvousReply;
class RendezvousRequest;
class TaskOrder;
}  // namespace v1

// Parts that tasks of both roads share.

// Returns the request of a slot that meets the others: the values that must be equal on all slots.
v1::RendezvousRequest MeetingRequest(const PreparedJob& job);

// Tells people what the task waits for; an empty text: it waits no longer.
void TellWait(CoordinatorClient& coordinator, absl::string_view text);

// Returns what a strategy reaches the servers with.
ShardRouterDependencies RoutingOf(const TaskDependencies& dependencies);

// Returns how long a collective call waits for other tasks that do not come.
absl::Duration StallTimeoutOf(const v1::TaskOrder& order);

// A task's rank among `world_size` tasks that train together.
struct RankInWorld {
  int rank = 0;
  int world_size = 1;
};

// Returns the trainer's options. `meeting` is the answer to the slot's last Rendezvous.
// InvalidArgument: the world does not suit the job's parallelism.
absl::StatusOr<TrainerOptions> TrainerOptionsFor(const v1::TaskOrder& order,
                                                 const v1::RendezvousReply& meeting,
                                                 const RankInWorld& place,
                                                 const TaskDependencies& dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_TASK_PARTS_H_
