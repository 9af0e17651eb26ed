#ifndef MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chaos/exported_weights.h"
#include "client/chaos/server_rounds.h"
#include "client/cluster_folder.h"
#include "client/job_client.h"

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

  // One round: a job with one of both durabilities, `kills` kills. An error says what was lost, or
  // what else went wrong.
  absl::StatusOr<ChaosOutcome> Run(uint64_t seed, int kills);

 private:
  absl::Status StartCluster();
  // The weights of a run that nobody disturbs; trained once per durability.
  absl::StatusOr<const ExportedWeights*> Undisturbed(bool every_push);
  absl::StatusOr<std::string> Submit(const v1::JobSpec& job);
  // Waits for the end, killing until then.
  absl::Status Torment(const std::string& job_id, uint64_t seed, int kills, ChaosOutcome& outcome);
  absl::StatusOr<ExportedWeights> Weights(const std::string& job_id);

  const ClusterFolder folder_;
  pid_t supervisor_ = 0;
  std::unique_ptr<JobClient> jobs_;
  std::map<bool, ExportedWeights> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
