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

// Rounds on one cluster of this machine. The cluster trains deterministic jobs while its processes
// are killed; the supervisor restarts them, as `muster up` does. Single-threaded.
class ClusterRounds {
 public:
  // The cluster lives in `folder`, from the first round to the end of this object.
  explicit ClusterRounds(std::string folder, int workers = 2)
      : workers_(workers), cluster_(std::move(folder)) {}

  // Each runs one round (see ChaosKind), on a job with one of the two durabilities and with `kills`
  // kills. An error says what was lost, or what else went wrong.
  absl::StatusOr<ChaosOutcome> RunKilled(uint64_t seed, int kills);
  absl::StatusOr<ChaosOutcome> RunComingWorkers(uint64_t seed, int kills);
  absl::StatusOr<ChaosOutcome> RunLostVolume(uint64_t seed);
  absl::StatusOr<ChaosOutcome> RunDamagedCheckpoint(uint64_t seed);

 private:
  absl::Status StartCluster();
  // Returns the weights of an undisturbed run, which is trained once per durability.
  absl::StatusOr<const ExportedWeights*> Undisturbed(ChaosRoad road);
  // Whom Torment kills: any process, or workers alone, most of which it gives notice instead.
  enum class Victims { kAll, kWorkers };
  // Waits for the job's end and kills processes meanwhile.
  absl::Status Torment(const std::string& job_id, uint64_t seed, int kills, ChaosOutcome& outcome,
                       Victims victims = Victims::kAll);
  // Waits until the job has reached a random step and has two checkpoints.
  absl::Status AwaitMiddle(const std::string& job_id, const Philox& random);
  // Kills the servers that `chosen` selects, and calls `harm` before the servers are restarted.
  absl::Status WhileDown(const std::function<bool(const std::string& server)>& chosen,
                         const std::function<absl::Status()>& harm, ChaosOutcome& outcome);
  // Checks that the job's weights are those of an undisturbed run, then deletes the job.
  absl::Status CheckWeights(const std::string& job_id, ChaosRoad road, const ChaosOutcome& outcome);

  const int workers_;
  ChaosCluster cluster_;
  std::map<ChaosRoad, ExportedWeights> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CLUSTER_ROUNDS_H_
