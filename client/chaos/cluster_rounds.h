#ifndef MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chaos/chaos_cluster.h"
#include "client/chaos/chaos_jobs.h"
#include "client/chaos/exported_weights.h"
#include "client/chaos/server_rounds.h"
#include "common/base/philox.h"

namespace muster {

// Rounds on one cluster of this machine, which trains deterministic jobs while its processes are
// killed; the supervisor starts them again, as it does in `muster up`. Single-threaded.
class ClusterRounds {
 public:
  // The cluster lives in `folder`, from the first round to the end of this object.
  explicit ClusterRounds(std::string folder) : cluster_(std::move(folder)) {}

  // One round each; see ChaosKind. A job with one of both durabilities, and `kills` kills. An error
  // says what was lost, or what else went wrong.
  absl::StatusOr<ChaosOutcome> RunKilled(uint64_t seed, int kills);
  absl::StatusOr<ChaosOutcome> RunLostVolume(uint64_t seed);
  absl::StatusOr<ChaosOutcome> RunDamagedCheckpoint(uint64_t seed);

 private:
  absl::Status StartCluster();
  // The weights of a run that nobody disturbs; trained once per durability.
  absl::StatusOr<const ExportedWeights*> Undisturbed(ChaosRoad road);
  // Waits for the end, killing until then.
  absl::Status Torment(const std::string& job_id, uint64_t seed, int kills, ChaosOutcome& outcome);
  // Waits until a job has come to some step, and to two checkpoints.
  absl::Status AwaitMiddle(const std::string& job_id, const Philox& random);
  // Kills the servers that `chosen` names and does `harm` before anybody starts them again.
  absl::Status WhileDown(const std::function<bool(const std::string& server)>& chosen,
                         const std::function<absl::Status()>& harm, ChaosOutcome& outcome);
  // The job's weights must be those of an undisturbed run; then it is deleted.
  absl::Status CheckWeights(const std::string& job_id, ChaosRoad road, const ChaosOutcome& outcome);

  ChaosCluster cluster_;
  std::map<ChaosRoad, ExportedWeights> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
