#ifndef MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/chaos/exported_weights.h"
#include "client/chaos/server_rounds.h"
#include "client/cluster_folder.h"
#include "client/job_client.h"
#include "common/base/philox.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Rounds on one cluster of this machine, which trains deterministic jobs while its processes are
// killed; the supervisor starts them again, as it does in `muster up`. Single-threaded.
class ClusterRounds {
 public:
  // The cluster lives in `folder`, from the first round to the end of this object.
  explicit ClusterRounds(std::string folder) : folder_(std::move(folder)) {}
  ~ClusterRounds();

  // One round each; see ChaosKind. A job with one of both durabilities, and `kills` kills. An error
  // says what was lost, or what else went wrong.
  absl::StatusOr<ChaosOutcome> RunKilled(uint64_t seed, int kills);
  absl::StatusOr<ChaosOutcome> RunLostVolume(uint64_t seed);
  absl::StatusOr<ChaosOutcome> RunDamagedCheckpoint(uint64_t seed);

 private:
  absl::Status StartCluster();
  // The weights of a run that nobody disturbs; trained once per durability.
  absl::StatusOr<const ExportedWeights*> Undisturbed(bool every_push);
  absl::StatusOr<std::string> Submit(const v1::JobSpec& job);
  // Waits for the end, killing until then.
  absl::Status Torment(const std::string& job_id, uint64_t seed, int kills, ChaosOutcome& outcome);
  absl::StatusOr<ExportedWeights> Weights(const std::string& job_id);
  // Waits until a job has come to some step, and to two checkpoints.
  absl::Status AwaitMiddle(const std::string& job_id, const Philox& random);
  // Kills the servers that `chosen` names and does `harm` before anybody starts them again.
  absl::Status WhileDown(const std::function<bool(const std::string& server)>& chosen,
                         const std::function<absl::Status()>& harm, ChaosOutcome& outcome);
  // The job's weights must be those of an undisturbed run; then it is deleted.
  absl::Status CheckWeights(const std::string& job_id, bool every_push,
                            const ChaosOutcome& outcome);
  // The first of the job's events that has this text; empty: none has.
  absl::StatusOr<std::string> FindEvent(const std::string& job_id, absl::string_view text);

  const ClusterFolder folder_;
  pid_t supervisor_ = 0;
  std::unique_ptr<JobClient> jobs_;
  std::map<bool, ExportedWeights> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
