#ifndef MUSTER_WORKER_RUNTIME_TASK_ALL_REDUCE_TASK_H_
#define MUSTER_WORKER_RUNTIME_TASK_ALL_REDUCE_TASK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/task/device_training.h"
#include "worker/runtime/task/task_dependencies.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/trainer.h"

namespace muster {

namespace v1 {
class RendezvousReply;
class RendezvousRequest;
class TaskOrder;
}  // namespace v1

// The task of one slot in a job that trains in rounds (TrainsInRounds). The tasks meet through the
// coordinator, form a group, take over the most advanced replica and train; if parameters are on
// servers, they go on from what these have. A
// collective call fails when another task is lost, is stuck or cannot be reached. Each task then
// reports its last calls, meets the others again and says why: the next round goes on in the same
// process, from the replica, with the tasks that are there. The coordinator waits longer and longer
// before it opens rounds after one without a step.
//
//   Meet → Connect → Join → Trainer::Run ─┬─ the end of the job
//    ▲                                    ├─ data, model, mismatch, fence: the task ends
//    └────── a task was lost ─────────────┘
//
// A job whose losses are final (common/job/job_road.h, LossIsFinal) has no second round. Its tasks
// come to meet all the same, and wait until the coordinator fences them and takes the job back to
// its last checkpoint. So a task ends with an error only if the error is its own, and no task's end
// hides the error of another.
class AllReduceTask {
 public:
  // All arguments outlive the task. Unavailable: no endpoint for collectives could be opened.
  // InvalidArgument: the order's update does not fit the model. REQUIRES: `dependencies.devices` is
  // set if the order computes on a device.
  static absl::StatusOr<std::unique_ptr<AllReduceTask>> Create(
      const v1::TaskOrder& order, const PreparedJob& job, const TaskDependencies& dependencies);

  // Trains to the end of the job. Aborted, NotFound: fenced. FailedPrecondition: the tasks' data,
  // models or calls differ. Unavailable: no step was finished in several rounds. Otherwise errors
  // of the trainer.
  absl::Status Run();

 private:
  // The end of a round.
  enum class End {
    // The job is over, or failed with an error of this task's own.
    kFinal,
    // Another task was lost.
    kMeetAgain,
  };
  struct Outcome {
    End end = End::kFinal;
    absl::Status status;
  };

  AllReduceTask(const v1::TaskOrder& order, const PreparedJob& job,
                const TaskDependencies& dependencies, std::unique_ptr<CollectiveEndpoint> endpoint,
                ReplicaParts parts);

  absl::StatusOr<v1::RendezvousReply> Meet();
  // Runs one round, and leaves its group.
  Outcome RunRound(const v1::RendezvousReply& round);
  // Connects the group and joins it with this task's replica. Aborted: the round was only for slots
  // to hand over what they have.
  absl::Status Enter(const v1::RendezvousReply& round, int rank);
  Outcome Train(const v1::RendezvousReply& round, int rank);
  // Reports the group's last calls after a failure of its own, and returns what follows.
  Outcome AfterFailure(absl::Status status);

  const v1::TaskOrder& order_;
  const PreparedJob& job_;
  const TaskDependencies& dependencies_;
  const std::unique_ptr<CollectiveEndpoint> endpoint_;
  const ReplicaParts parts_;
  // The last round that this task was part of.
  uint64_t round_ = 0;
  // True if that round ended because a call took too long.
  bool late_ = false;
  // The number of clocks whose steps were reported.
  uint64_t reported_clock_ = 0;
  // Why that round ended, for people; empty if no call failed.
  std::string failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_ALL_REDUCE_TASK_H_
