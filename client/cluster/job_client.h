#ifndef MUSTER_CLIENT_CLUSTER_JOB_CLIENT_H_
#define MUSTER_CLIENT_CLUSTER_JOB_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

namespace v1 {
class CheckpointRequest;
class DeleteCheckpointReply;
class DeleteCheckpointRequest;
class DrainServerReply;
class DrainServerRequest;
class GetClusterReply;
class JobSpec;
class JobStatus;
class ListCheckpointsReply;
class ListCollectivesReply;
class ListEventsReply;
class ListJobsReply;
class ListJobsRequest;
class MetricsChunk;
class ReadLogsRequest;
class ReadMetricsRequest;
class TraceChunk;
class TraceJobRequest;
class VerifyCheckpointReply;
}  // namespace v1

// The coordinator's JobService, as commands use it. Every call blocks until it is answered. A call
// is repeated for a few seconds while the coordinator cannot be reached, for it may be restarting;
// all calls are safe to repeat. Errors are those of the rpcs; NoCoordinatorError
// (client/cluster/exit_code.h), which names the address; InvalidArgument: a string of the request
// is not UTF-8. Not thread-safe.
class JobClient {
 public:
  struct Patience {
    // Longest time for one call.
    absl::Duration call = absl::Seconds(20);
    // Longest time to repeat a call while the coordinator cannot be reached.
    absl::Duration unreachable = absl::Seconds(4);
  };

  JobClient(std::string coordinator_address, const RpcCredentials& credentials)
      : JobClient(std::move(coordinator_address), credentials, Patience()) {}
  // `program_token_file` has the token to submit jobs with that run programs; empty: there is none.
  JobClient(std::string coordinator_address, const RpcCredentials& credentials, Patience patience,
            std::string program_token_file = "");
  ~JobClient();

  // Submits a job. A job without an owner gets the name of the user who runs this process.
  // FailedPrecondition: the job runs a program, and there is no token or it cannot be read.
  absl::Status Submit(const v1::JobSpec& spec, std::string& job_id);
  // Sends the archive of a folder (common/program/folder_archive.h) that a job is to name, unless
  // the coordinator has it. `name` is that of the archive's content. FailedPrecondition: as Submit.
  absl::Status Ship(const std::string& name, absl::string_view archive);
  absl::Status Get(const std::string& job_id, v1::JobStatus& status);
  // Lists the jobs that the request selects, `most` at most, by as many calls as needed. The
  // reply's next_page_token is set if there may be more jobs.
  absl::Status List(v1::ListJobsRequest request, v1::ListJobsReply& reply,
                    size_t most = std::numeric_limits<size_t>::max());

  // Says which job a name means if several jobs have it.
  enum class Naming {
    // The last submitted job that has not ended; if all have ended, the last submitted job.
    kNewest,
    // Like kNewest, except that several jobs that have not ended are InvalidArgument, which lists
    // them.
    kOneUnfinished,
    // Several jobs are InvalidArgument, which lists them: for commands that cannot be undone.
    kOne,
  };
  // Returns the id of the job that `called` means. An id means its job even if it is the name of
  // other jobs. NotFound: there is no such job.
  absl::StatusOr<std::string> Find(const std::string& called, Naming naming = Naming::kNewest);
  absl::Status Events(const std::string& job_id, v1::ListEventsReply& reply);
  absl::Status Collectives(const std::string& job_id, v1::ListCollectivesReply& reply);
  absl::Status Cancel(const std::string& job_id, const std::string& reason, v1::JobStatus& status);
  // NotFound: there was no such job before the first attempt. A job that is gone after an attempt
  // without an answer counts as deleted.
  absl::Status Delete(const std::string& job_id);
  // Replaces the job's description; an empty one removes it.
  absl::Status Describe(const std::string& job_id, const std::string& description,
                        v1::JobStatus& status);
  absl::Status Checkpoints(const std::string& job_id, v1::ListCheckpointsReply& reply);
  // Takes as long as reading all files of the checkpoint.
  absl::Status VerifyCheckpoint(const v1::CheckpointRequest& request,
                                v1::VerifyCheckpointReply& reply);
  absl::Status DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                v1::DeleteCheckpointReply& reply);
  absl::Status Cluster(v1::GetClusterReply& reply);
  absl::Status DrainServer(const v1::DrainServerRequest& request, v1::DrainServerReply& reply);
  absl::Status Rebalance(const std::string& job_id, v1::JobStatus& status);
  absl::Status Metrics(std::string& text);

  // Calls `changed` with each new status until the job has ended. `status` is the last one.
  absl::Status Watch(const std::string& job_id,
                     const std::function<void(const v1::JobStatus&)>& changed,
                     v1::JobStatus& status);
  // Ends the Watch under way and all later ones with Cancelled. May be called from any thread.
  void StopWatching();

  // Reads series of a job's history into `read`. REQUIRES: the request does not follow.
  absl::Status History(const v1::ReadMetricsRequest& request, v1::MetricsChunk& read);
  // Calls `added` with each message of a job's history. After an interruption all messages come
  // again. An error of `added` ends the call and is returned.
  absl::Status StreamHistory(const v1::ReadMetricsRequest& request,
                             const std::function<absl::Status(const v1::MetricsChunk&)>& added);

  // Traces a job and calls `added` with each message. An error of `added` ends the trace and is
  // returned. Not repeated once begun. Aborted: the coordinator went away meanwhile.
  absl::Status Trace(const v1::TraceJobRequest& request,
                     const std::function<absl::Status(const v1::TraceChunk&)>& added);

  // Calls `text` with the parts of a job's log that the request selects, and with a line in place
  // of what is missing.
  absl::Status Logs(v1::ReadLogsRequest request,
                    const std::function<void(absl::string_view)>& text);

  // Calls `data` with consecutive parts of a checkpoint's weights in safetensors format. Not
  // repeated.
  absl::Status Export(const v1::CheckpointRequest& request,
                      const std::function<absl::Status(absl::string_view)>& data);

 private:
  struct Connection;
  class Watching;

  enum class Which { kAll, kUnfinished };
  // Lists the jobs that `called` means, the last submitted first. A coordinator that cannot look up
  // names is taken to have a job with this id.
  absl::Status ListCalled(const std::string& called, Which which, size_t most,
                          v1::ListJobsReply& reply);

  // Repeats `attempt` while the coordinator is unreachable and patience lasts.
  absl::Status Reach(const std::function<absl::Status()>& attempt);

  const std::string address_;
  const Patience patience_;
  const std::string program_token_file_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_JOB_CLIENT_H_
