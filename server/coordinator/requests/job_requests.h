#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/coordinator_options.h"

namespace muster {

// JobService's calls about jobs that are there, without gRPC; see proto/job_service.proto for
// meaning and errors. SubmitRequests makes jobs. A stream is a series of parked calls, each of
// which asks for the next message. Logic thread only.
class JobRequests {
 public:
  // All references outlive it. `may_write` returns whether a task of an ended job may still write
  // to the job's log.
  JobRequests(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
              CheckpointLifecycle& checkpoints, const Clock& clock, CoordinatorMetrics& metrics,
              const CoordinatorOptions& options, std::function<bool(const Job&)> may_write);

  absl::StatusOr<v1::JobStatus> Get(const std::string& job_id) const;
  absl::StatusOr<v1::ListJobsReply> List(const v1::ListJobsRequest& request) const;
  absl::StatusOr<v1::ListEventsReply> Events(const std::string& job_id) const;
  // Asks the job's tasks for their collective calls; answers when all have reported, or after 2 s.
  void ListCollectives(const std::string& job_id, Call<v1::ListCollectivesReply> call);
  absl::StatusOr<v1::JobStatus> Cancel(const v1::CancelJobRequest& request);
  void Delete(const std::string& job_id, Call<v1::DeleteJobReply> call);
  absl::StatusOr<v1::JobStatus> Describe(const v1::DescribeJobRequest& request);
  v1::GetClusterReply Cluster() const;
  v1::GetMetricsReply Metrics() const;
  // The metrics whose text Metrics returns; making it takes longest, and can be done on any thread.
  GatheredMetrics GatherMetrics() const;

  struct StatusUpdate {
    v1::JobStatus status;
    // Version to name in the next call.
    uint64_t version = 0;
    // True if no update follows.
    bool last = false;
  };
  // Answers with the status once it differs from `seen_version` (0: none), at most 4 times a
  // second.
  void NextStatus(const std::string& job_id, uint64_t seen_version, Call<StatusUpdate> call);

  struct LogUpdate {
    v1::LogChunk chunk;
    bool last = false;
  };
  // Answers with log text from an offset, once there is some, the job ended, or without `follow`.
  void NextLog(const v1::ReadLogsRequest& request, Call<LogUpdate> call);

  // Removes the ended jobs that the options no longer keep, those that ended first; logs each.
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
    // Number of the question, from the job's CollectiveReports.
    uint64_t question = 0;
    absl::Duration deadline;
    Call<v1::ListCollectivesReply> call;
  };

  absl::StatusOr<Job*> Find(const std::string& job_id) const;
  // Removes all of these ended jobs except the `kept` that ended last.
  void RetireBeyond(size_t kept, std::vector<Job*> ended, const std::string& why);
  // Replaces `since_ms` and `tail_lines` by the offset at which the reader begins.
  void BeginAt(const Job& job, v1::ReadLogsRequest& request) const;
  // Returns whether the job has ended and its log has all that its tasks wrote. Only then are those
  // told of the end who watch the job or follow its log.
  bool HasLastText(Job& job) const;
  // Each returns whether it answered the call.
  bool Answer(Watcher& watcher) const;
  bool Answer(LogReader& reader) const;
  bool Answer(CollectivesReader& reader) const;

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  CheckpointLifecycle& checkpoints_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  const CoordinatorOptions& options_;
  const std::function<bool(const Job&)> may_write_;
  std::vector<Watcher> watchers_;
  std::vector<LogReader> log_readers_;
  std::vector<CollectivesReader> collectives_readers_;
  // Time before which no job is retired, after a failure.
  absl::Duration retire_after_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_JOB_REQUESTS_H_
