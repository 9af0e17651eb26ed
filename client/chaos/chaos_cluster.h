#ifndef MUSTER_CLIENT_CHAOS_CHAOS_CLUSTER_H_
#define MUSTER_CLIENT_CHAOS_CHAOS_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/chaos/exported_weights.h"
#include "client/cluster/cluster_folder.h"
#include "client/cluster/job_client.h"
#include "client/cluster/local_cluster.h"

namespace muster {

namespace v1 {
class JobSpec;
class JobStatus;
}  // namespace v1

// A cluster on this machine for rounds of chaos. Its supervisor restarts what the rounds kill, as
// `muster up` does. Single-threaded.
class ChaosCluster {
 public:
  // The cluster lives in `folder`, from Start to the end of this object.
  explicit ChaosCluster(std::string folder) : folder_(std::move(folder)) {}
  ~ChaosCluster();

  bool running() const { return supervisor_ != 0; }
  // Starts the cluster. REQUIRES: the cluster is not running.
  absl::Status Start(LocalClusterOptions options);

  const ClusterFolder& folder() const { return folder_; }
  // The methods below require a running cluster.
  pid_t supervisor() const { return supervisor_; }
  JobClient& jobs() { return *jobs_; }
  // Waits until the coordinator answers; a coordinator that is being restarted does not.
  absl::Status AwaitCoordinator();
  // Submits a job, once there is room for it.
  absl::StatusOr<std::string> Submit(const v1::JobSpec& job);

  // Calls `turn` with each status, some 50 times a second, until the job has ended or `turn`
  // returns false. Errors: DeadlineExceeded if the job hangs; FailedPrecondition if the job failed
  // or was cancelled, with what `describe` says was done to the job; or the error of `turn`.
  absl::Status Await(const std::string& job_id,
                     const std::function<absl::StatusOr<bool>(const v1::JobStatus&)>& turn,
                     const std::function<std::string()>& describe);

  // Returns the weights of the checkpoint at `clock`, or of the last one without a clock.
  absl::StatusOr<ExportedWeights> Weights(const std::string& job_id,
                                          std::optional<uint64_t> clock = std::nullopt);
  // Returns the first of the job's events that contains this text, or "" if none does.
  absl::StatusOr<std::string> FindEvent(const std::string& job_id, absl::string_view text);
  // Counts the job's events that contain this text.
  absl::StatusOr<int> CountEvents(const std::string& job_id, absl::string_view text);

 private:
  const ClusterFolder folder_;
  pid_t supervisor_ = 0;
  std::unique_ptr<JobClient> jobs_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CHAOS_CLUSTER_H_
