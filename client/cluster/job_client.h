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
class ReadLogsRequest;
class VerifyCheckpointReply;
}  // namespace v1

// The coordinator's JobService, as commands use it. Every call blocks until it is answered, and
// repeats itself for a few seconds while the coordinator cannot be reached (it may be restarting),
// as all of them are safe to repeat. Errors are those of the rpcs; NoCoordinatorError
// (client/cluster/exit_code.h) names the address; InvalidArgument: a string of the request is not
// UTF-8. Not thread-safe.
class JobClient {
 public:
  struct Patience {
    // Of one call.
    absl::Duration call = absl::Seconds(20);
    // With a coordinator that cannot be reached.
    absl::Duration unreachable = absl::Seconds(4);
  };

  JobClient(std::string coordinator_address, const RpcCredentials& credentials)
      : JobClient(std::move(coordinator_address), credentials, Patience()) {}
  JobClient(std::string coordinator_address, const RpcCredentials& credentials, Patience patience);
  ~JobClient();

  absl::Status Submit(const v1::JobSpec& spec, std::string& job_id);
  absl::Status Get(const std::string& job_id, v1::JobStatus& status);
  // The jobs that the request's fields take, from as many calls as they need, `most` at most; the
  // reply's next_page_token says where further ones may be.
  absl::Status List(v1::ListJobsRequest request, v1::ListJobsReply& reply,
                    size_t most = std::numeric_limits<size_t>::max());

  // Which job a name stands for that several jobs have.
  enum class Naming {
    // The last submitted one that has not ended; where all have, the last submitted one.
    kNewest,
    // The same, but InvalidArgument, which lists them, where several have not ended.
    kOneUnfinished,
    // InvalidArgument, which lists them: whatever is done cannot be undone.
    kOne,
  };
  // The id of the job that its user calls so. An id stands for its job, also where it is the name
  // of others. NotFound: there is no such job.
  absl::StatusOr<std::string> Find(const std::string& called, Naming naming = Naming::kNewest);
  absl::Status Events(const std::string& job_id, v1::ListEventsReply& reply);
  absl::Status Collectives(const std::string& job_id, v1::ListCollectivesReply& reply);
  absl::Status Cancel(const std::string& job_id, const std::string& reason, v1::JobStatus& status);
  // NotFound: there was no such job before the first attempt. One that is gone after an attempt
  // whose answer was lost counts as deleted.
  absl::Status Delete(const std::string& job_id);
  absl::Status Checkpoints(const std::string& job_id, v1::ListCheckpointsReply& reply);
  // Takes as long as reading all its files does.
  absl::Status VerifyCheckpoint(const v1::CheckpointRequest& request,
                                v1::VerifyCheckpointReply& reply);
  absl::Status DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                v1::DeleteCheckpointReply& reply);
  absl::Status Cluster(v1::GetClusterReply& reply);
  absl::Status DrainServer(const v1::DrainServerRequest& request, v1::DrainServerReply& reply);
  absl::Status Rebalance(const std::string& job_id, v1::JobStatus& status);
  absl::Status Metrics(std::string& text);

  // Calls `changed` with each new status until the job ended; `status` is the last one.
  absl::Status Watch(const std::string& job_id,
                     const std::function<void(const v1::JobStatus&)>& changed,
                     v1::JobStatus& status);
  // Ends the Watch under way, and later ones, with Cancelled. From any thread.
  void StopWatching();

  // Calls `text` with what the request takes of a job's log, and with a line in place of what is
  // missing.
  absl::Status Logs(v1::ReadLogsRequest request,
                    const std::function<void(absl::string_view)>& text);

  // Calls `data` with the pieces of a checkpoint's weights in safetensors' format. Not repeated.
  absl::Status Export(const v1::CheckpointRequest& request,
                      const std::function<absl::Status(absl::string_view)>& data);

 private:
  struct Connection;
  class Watching;

  enum class Which { kAll, kUnfinished };
  // The jobs that their user calls so, the last submitted ones first. A coordinator that knows no
  // names is taken to have one with this id.
  absl::Status ListCalled(const std::string& called, Which which, size_t most,
                          v1::ListJobsReply& reply);

  // Repeats `attempt` while the coordinator is unreachable and patience lasts.
  absl::Status Reach(const std::function<absl::Status()>& attempt);

  const std::string address_;
  const Patience patience_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_JOB_CLIENT_H_
