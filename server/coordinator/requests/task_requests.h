#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_TASK_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_TASK_REQUESTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/lifecycle/round_formation.h"
#include "server/coordinator/metrics/collective_times.h"
#include "server/coordinator/requests/adjust_requests.h"
#include "server/coordinator/requests/report_interval.h"
#include "server/coordinator/requests/trace_requests.h"
#include "server/coordinator/requests/verify_requests.h"

namespace muster {

// TaskService's calls, without gRPC; see proto/task_service.proto for meaning and errors. Every
// call, also a parked one, gets ABORTED if the task is fenced, NOT_FOUND if the job has ended.
// Logic thread only.
class TaskRequests {
 public:
  // All references outlive it.
  TaskRequests(JobTable& jobs, JobLifecycle& lifecycle, CheckpointLifecycle& checkpoints,
               RoundFormation& rounds, CollectiveTimes& collective_times, TraceRequests& traces,
               const Clock& clock);

  void Rendezvous(const v1::RendezvousRequest& request, Call<v1::RendezvousReply> call);
  absl::StatusOr<v1::ReportProgressReply> ReportProgress(const v1::ReportProgressRequest& request);
  void ReportEvaluation(const v1::ReportEvaluationRequest& request,
                        Call<v1::ReportEvaluationReply> call);
  void Adjust(const v1::AdjustRequest& request, Call<v1::AdjustReply> call);
  void VerifyStep(const v1::VerifyStepRequest& request, Call<v1::VerifyStepReply> call);
  void CommitCheckpoint(const v1::CommitCheckpointRequest& request,
                        Call<v1::CommitCheckpointReply> call);
  // Takes reports also from the last tasks of a job that has ended: they most likely show why.
  absl::StatusOr<v1::ReportCollectivesReply> ReportCollectives(
      const v1::ReportCollectivesRequest& request);
  // Takes pieces also from the last tasks of a job that has ended.
  absl::StatusOr<v1::TraceReply> ReportTrace(const v1::ReportTraceRequest& request);
  void GetShardMap(const v1::GetShardMapRequest& request, Call<v1::ShardMap> call);

  // Answers calls for shard maps that are there or overdue, and those whose callers are gone.
  void AnswerChanged();

 private:
  // Returns the job, if this is the present task of one of its slots.
  absl::StatusOr<Job*> Authenticate(const v1::TaskIdentity& task) const;
  // Does the same for the last task of a slot, also if the job has ended.
  absl::StatusOr<Job*> AuthenticateLast(const v1::TaskIdentity& task) const;
  // Notes the checkpoint that a new process of an elastic program goes on from: it is kept
  // meanwhile.
  absl::Status NoteResumed(Job& job, uint32_t slot);
  // Tells an alert of the job's first loss that is not finite.
  void NoteLoss(Job& job, const v1::ReportProgressRequest& request);
  // Notes what the task says it cannot reach.
  absl::Status NoteWait(Job& job, const v1::ReportProgressRequest& request);
  absl::Status TakeShare(Job& job, const v1::ReportEvaluationRequest& request);
  // Does the same for a value that a program measured.
  absl::Status TakeValue(Job& job, const v1::ReportEvaluationRequest& request);
  // Adds a result to the job's record and history.
  absl::Status AddResult(Job& job, v1::EvaluationResult result);
  void CommitOfProgram(Job& job, const v1::CommitCheckpointRequest& request,
                       Call<v1::CommitCheckpointReply> call);
  // Commits the parts of a program's checkpoint, if all that the job waits for are there.
  void CommitParts(Job& job);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
  CheckpointLifecycle& checkpoints_;
  RoundFormation& rounds_;
  CollectiveTimes& collective_times_;
  TraceRequests& traces_;
  const Clock& clock_;
  AdjustRequests adjust_requests_;
  VerifyRequests verify_requests_;
  TableReportInterval report_interval_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_TASK_REQUESTS_H_
