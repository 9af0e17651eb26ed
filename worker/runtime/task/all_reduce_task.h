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

// One slot of a job whose dense parameters are trained by all-reduce. Its tasks meet through the
// coordinator, form a group, take the replica of the most advanced one over and train. When a
// collective call fails, because another task was lost, is stuck or cannot be reached, each tells
// of its last calls and meets again, and says why: the next round goes on in this process, from the
// replica, with whoever is there. The coordinator lets rounds without a step begin later and later.
//
//   Meet → Connect → Join → Trainer::Run ─┬─ the end of the job
//    ▲                                    ├─ data, model, mismatch, fence: the task ends
//    └────── a task was lost ─────────────┘
//
// A job with sparse tables on servers (hybrid) has no second round: what servers hold cannot go
// back by a step, so the coordinator takes the whole job back to its last checkpoint.
class AllReduceTask {
 public:
  // All that is lent outlives the task. Unavailable: no endpoint for collectives could be opened.
  // InvalidArgument: the order's update does not fit the model.
  // REQUIRES: dependencies with devices, if the order computes on one.
  static absl::StatusOr<std::unique_ptr<AllReduceTask>> Create(
      const v1::TaskOrder& order, const PreparedJob& job, const TaskDependencies& dependencies);

  // To the end of the job. Aborted, NotFound: fenced. FailedPrecondition: the tasks' data, models
  // or calls differ. Unavailable, DeadlineExceeded: no step was finished in several rounds.
  // Otherwise errors of the trainer.
  absl::Status Run();

 private:
  // What a round came to.
  enum class End {
    // The job's end, or an error that meeting again does not mend.
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
  // Ends with the group left.
  Outcome RunRound(const v1::RendezvousReply& round);
  // Makes the group, and its replica this task's.
  absl::Status Enter(const v1::RendezvousReply& round, int rank);
  Outcome Train(const v1::RendezvousReply& round, int rank);
  // What follows from a failure that did not come from the coordinator. Tells of the group's last
  // calls.
  Outcome AfterFailure(absl::Status status);

  const v1::TaskOrder& order_;
  const PreparedJob& job_;
  const TaskDependencies& dependencies_;
  const std::unique_ptr<CollectiveEndpoint> endpoint_;
  const ReplicaParts parts_;
  const bool hybrid_;
  // The last round that this task was part of.
  uint64_t round_ = 0;
  // It ended because a call was not over in time.
  bool late_ = false;
  // Why it ended, for people; empty: no call failed.
  std::string failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_ALL_REDUCE_TASK_H_
