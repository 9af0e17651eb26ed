#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/requests/plan_job.h"

namespace muster {

// JobService's calls, without gRPC; see proto/job_service.proto for meaning and errors. Streams are
// made of parked calls: each asks for what comes next. Logic thread only.
class JobRequests {
 public:
  // All references outlive it.
  JobRequests(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
              CheckpointLifecycle& checkpoints, const CheckpointArchive& archive,
              SerialExecutor& logic, SerialExecutor& planning, const Clock& clock,
              CoordinatorMetrics& metrics, const CoordinatorOptions& options);

  // Answered once the job has been checked and planned on the executor `planning`, one after
  // another; meanwhile others are served.
  void Submit(const v1::SubmitJobRequest& request, Call<v1::SubmitJobReply> call);
  absl::StatusOr<v1::JobStatus> Get(const std::string& job_id) const;
  absl::StatusOr<v1::ListJobsReply> List(const v1::ListJobsRequest& request) const;
  absl::StatusOr<v1::ListEventsReply> Events(const std::string& job_id) const;
  // Asks the job's tasks for their collective calls; answered when all have told, or 2 s later.
  void ListCollectives(const std::string& job_id, Call<v1::ListCollectivesReply> call);
  absl::StatusOr<v1::JobStatus> Cancel(const v1::CancelJobRequest& request);
  void Delete(const std::string& job_id, Call<v1::DeleteJobReply> call);
  v1::GetClusterReply Cluster() const;
  v1::GetMetricsReply Metrics() const;

  struct StatusUpdate {
    v1::JobStatus status;
    // To be named by the next call.
    uint64_t version = 0;
    // Nothing comes after this one.
    bool last = false;
  };
  // The job's status once it differs from the version seen (0: none), at most about four a second.
  void NextStatus(const std::string& job_id, uint64_t seen_version, Call<StatusUpdate> call);

  struct LogUpdate {
    v1::LogChunk chunk;
    bool last = false;
  };
  // Log text from an offset, once there is some, or with `follow` unset, or the job ended.
  void NextLog(const v1::ReadLogsRequest& request, Call<LogUpdate> call);

  // Forgets jobs that ended without a checkpoint beyond those kept, and deletes those with some
  // only where the options limit their number. Tells the log of each.
  void Retire();

  // Answers the parked calls for which something came, and those whose callers are gone.
  void AnswerChanged();
  void AnswerAll(const absl::Status& status);

 private:
  struct Watcher {
    std::string job_id;
    uint64_t seen_version = 0;
    absl::Duration not_before;
    Call<StatusUpdate> call;
  };
  struct LogReader {
    v1::ReadLogsRequest request;
    Call<LogUpdate> call;
  };

  struct CollectivesReader {
    std::string job_id;
    // Of the job's CollectiveReports.
    uint64_t question = 0;
    absl::Duration deadline;
    Call<v1::ListCollectivesReply> call;
  };

  absl::StatusOr<Job*> Find(const std::string& job_id) const;
  struct Source {
    const Job* job = nullptr;
    const v1::CheckpointRecord* checkpoint = nullptr;
    // The same with the job's id, which stands for it also when later jobs have its name.
    std::string by_id;
  };
  // What a field of a specification names as JOB or JOB@CLOCK, where JOB is an id or a name
  // (FindJobCalled). InvalidArgument: it is neither.
  // NotFound: there is no such job, or checkpoint. FailedPrecondition: the job has no checkpoint.
  absl::StatusOr<Source> FindSource(absl::string_view field, const std::string& text) const;
  struct NewJob {
    v1::JobRecord record;
    // Job::data_preparation.
    std::string data_preparation;
  };
  // Lets a new job begin with the weights that its `initial_weights` names: as FindSource, or the
  // absolute path or URI of a folder.
  absl::Status TakeInitialWeights(NewJob& job) const;
  // Lets a new job go on from the checkpoint that its `resume_from` names. InvalidArgument: its
  // optimizer is another one, or nothing is left to train.
  absl::Status Resume(NewJob& job) const;
  // The job of an earlier call with this request_id; null: there is none. InvalidArgument: it had
  // another specification.
  absl::StatusOr<const Job*> FindRequest(const std::string& request_id, uint64_t fingerprint) const;
  // Stores a job that was planned, or says why not.
  absl::StatusOr<v1::SubmitJobReply> Accept(const std::string& request_id, uint64_t fingerprint,
                                            const absl::StatusOr<PlannedJob>& planned);
  absl::StatusOr<NewJob> MakeJob(const PlannedJob& planned) const;
  // Retires all but the `kept` of these ended jobs that ended last.
  void RetireBeyond(size_t kept, std::vector<Job*> ended, const std::string& why);
  // Puts the offset where a reader of the log begins in place of `since_ms` and `tail_lines`.
  void BeginAt(const Job& job, v1::ReadLogsRequest& request) const;
  // Each true: the call was answered.
  bool Answer(Watcher& watcher) const;
  bool Answer(LogReader& reader) const;
  bool Answer(CollectivesReader& reader) const;

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  CheckpointLifecycle& checkpoints_;
  // Used by `planning_`.
  const CheckpointArchive& archive_;
  SerialExecutor& logic_;
  SerialExecutor& planning_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  const CoordinatorOptions& options_;
  std::vector<Watcher> watchers_;
  std::vector<LogReader> log_readers_;
  std::vector<CollectivesReader> collectives_readers_;
  // Jobs that `planning_` has.
  size_t in_planning_ = 0;
  // After a failure: when the next job may be retired.
  absl::Duration retire_after_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_
