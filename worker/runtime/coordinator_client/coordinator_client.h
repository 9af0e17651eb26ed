#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

namespace v1 {
class AdjustReply;
class AdjustRequest;
class CommitCheckpointRequest;
class RendezvousReply;
class RendezvousRequest;
class ReportCollectivesRequest;
class ReportEvaluationReply;
class ReportEvaluationRequest;
class ReportProgressReply;
class ReportProgressRequest;
class ShardMap;
class VerifyStepReply;
class VerifyStepRequest;
}  // namespace v1

// A task's client of the coordinator (TaskService). The implementation writes the task's identity
// into each request. Calls block. Unless noted, they are repeated while the coordinator is away,
// which is safe for each of them. All return Aborted when the task is fenced and NotFound when its
// job is gone; in both cases the task must end. Thread-safe.
class CoordinatorClient {
 public:
  virtual ~CoordinatorClient() = default;

  // Meets the job's other tasks. FailedPrecondition: the tasks' data or models differ.
  virtual absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) = 0;

  // Reports progress. Not repeated: the next report includes it. Unavailable: no coordinator.
  virtual absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) = 0;

  // Reports collective calls, for people. Not repeated. Unavailable: no coordinator.
  virtual absl::Status ReportCollectives(v1::ReportCollectivesRequest request) = 0;

  // Reports this slot's share of an evaluation, and returns once all slots have reported.
  // Cancelled: by all-reduce, another task was lost; all must meet and report again.
  virtual absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) = 0;

  // Asks at a clock what is decided for the steps to come, and returns once all slots have asked.
  // Cancelled: by all-reduce, another task was lost; all must meet and ask again.
  virtual absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) = 0;

  // Tells what this task has computed of shares of a step, and returns once all slots have told.
  // Aborted also: the worker computed other bits than others. Cancelled: in rounds, another task
  // was lost; all must meet and repeat the step.
  virtual absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) = 0;

  // Commits a checkpoint, or reports that it failed. After a stop the call returns soon, with
  // Cancelled or the last attempt's error. DataLoss: a file of the cut is not whole.
  virtual absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request,
                                        std::stop_token stop) = 0;

  // Returns the newest shard map once its version is at least `min_version` or `wait` has passed.
  // Not repeated. Unavailable: no coordinator.
  virtual absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
