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

// A cluster on this machine for rounds of chaos, whose supervisor starts again what they kill, as
// it does in `muster up`. Single-threaded.
class ChaosCluster {
 public:
  // The cluster lives in `folder`, from Start to the end of this object.
  explicit ChaosCluster(std::string folder) : folder_(std::move(folder)) {}
  ~ChaosCluster();

  bool running() const { return supervisor_ != 0; }
  // REQUIRES: it does not run.
  absl::Status Start(LocalClusterOptions options);

  const ClusterFolder& folder() const { return folder_; }
  // REQUIRES of what follows: it runs.
  pid_t supervisor() const { return supervisor_; }
  JobClient& jobs() { return *jobs_; }
  // Waits until the coordinator answers, which it does not while it is started again.
  absl::Status AwaitCoordinator();
  absl::StatusOr<std::string> Submit(const v1::JobSpec& job);

  // Calls `turn` with each status, some 50 times a second, until the job ended or `turn` returns
  // false. DeadlineExceeded: it hangs. FailedPrecondition: it ended, and not well; with what
  // `describe` says was done to it. Or the error of `turn`.
  absl::Status Await(const std::string& job_id,
                     const std::function<absl::StatusOr<bool>(const v1::JobStatus&)>& turn,
                     const std::function<std::string()>& describe);

  // Of the checkpoint at `clock`; none: of the last one.
  absl::StatusOr<ExportedWeights> Weights(const std::string& job_id,
                                          std::optional<uint64_t> clock = std::nullopt);
  // The first of the job's events that has this text; empty: none has.
  absl::StatusOr<std::string> FindEvent(const std::string& job_id, absl::string_view text);
  // How many of the job's events have this text.
  absl::StatusOr<int> CountEvents(const std::string& job_id, absl::string_view text);

 private:
  const ClusterFolder folder_;
  pid_t supervisor_ = 0;
  std::unique_ptr<JobClient> jobs_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CHAOS_CLUSTER_H_
