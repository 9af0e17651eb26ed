#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

namespace v1 {
class CommitCheckpointRequest;
class RendezvousReply;
class RendezvousRequest;
class ReportCollectivesRequest;
class ReportEvaluationReply;
class ReportEvaluationRequest;
class ReportProgressReply;
class ReportProgressRequest;
class ShardMap;
}  // namespace v1

// What a task asks of the coordinator (TaskService); the implementation writes the task's identity
// into each request. Calls block and outlast a restart of the coordinator: they are repeated, which
// is safe for each of them. All return Aborted when the task is fenced and NotFound when its job is
// gone; in both cases it must end. Thread-safe.
class CoordinatorClient {
 public:
  virtual ~CoordinatorClient() = default;

  // Meets the job's other tasks. FailedPrecondition: their data or models differ.
  virtual absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) = 0;

  // Not repeated: the next report makes up for a lost one. Unavailable: the coordinator is away.
  virtual absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) = 0;

  // Not repeated: what is told is only looked at. Unavailable: the coordinator is away.
  virtual absl::Status ReportCollectives(v1::ReportCollectivesRequest request) = 0;

  // Returns once all slots have reported. Cancelled: by all-reduce, another task was lost, so that
  // all are to meet again and report anew.
  virtual absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) = 0;

  // A stop ends it soon with Cancelled, or the last attempt's error. DataLoss: a file of the cut is
  // not whole.
  virtual absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request,
                                        std::stop_token stop) = 0;

  // The newest shard map, once its version is at least `min_version` or `wait` has passed.
  virtual absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COORDINATOR_CLIENT_H_
