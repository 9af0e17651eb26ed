#ifndef MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/chaos/chaos_cluster.h"
#include "client/chaos/chaos_jobs.h"
#include "client/chaos/committed_files.h"
#include "client/chaos/exported_weights.h"
#include "client/chaos/faults/chaos_plan.h"
#include "client/chaos/faults/cluster_links.h"
#include "client/chaos/faults/cluster_processes.h"
#include "client/chaos/faults/link_plan.h"
#include "client/chaos/server_rounds.h"
#include "common/base/philox.h"
#include "common/checkpoint/local_storage.h"

namespace muster {

// Rounds on one cluster of this machine whose links have faults, with and without kills, or whose
// workers stand still. At the end of each round, every checkpoint that was ever committed must be
// unchanged, or retired by newer ones, and hold the weights of an undisturbed run at its clock.
// Single-threaded.
class LinkRounds {
 public:
  struct Options {
    // Of the cluster's daemons.
    absl::Duration lease;
    // Jobs have two tasks; workers beyond two are spare.
    int workers = 2;
    // Of each job with an end.
    uint64_t steps = 600;
    uint64_t checkpoint_every = 10;
    // True: most of a step's time goes to the tasks' own computing, of which ChaosJob has little.
    bool computes = false;
    // Flags of the coordinator beside the lease.
    std::vector<std::string> coordinator_flags = {};
  };

  // The cluster lives in `folder`, from the first round to the end of this object.
  LinkRounds(std::string folder, const Options& options)
      : options_(options), cluster_(std::move(folder)) {}

  // Each runs one round (see ChaosKind). An error says what was lost, or what else went wrong.
  // `kind` is one with random link faults; the round has `faults` of them.
  absl::StatusOr<ChaosOutcome> Run(ChaosKind kind, uint64_t seed, int faults);
  absl::StatusOr<ChaosOutcome> RunCutLinkRewritesCheckpoints(uint64_t seed);
  absl::StatusOr<ChaosOutcome> RunF16RewritesCheckpoint(uint64_t seed);
  // The round stops a worker `freezes` times. REQUIRES: a spare worker.
  absl::StatusOr<ChaosOutcome> RunFrozenWorker(uint64_t seed, int freezes);
  // The round slows one worker until the job has left it. REQUIRES: a spare worker.
  absl::StatusOr<ChaosOutcome> RunSlowWorker(uint64_t seed);

 private:
  // An undisturbed run: its job, whose checkpoints all stay, and their weights, read when needed.
  struct Undisturbed {
    std::string job_id;
    std::map<uint64_t, ExportedWeights> weights;
  };

  absl::Status StartCluster();
  v1::JobSpec LinkJob(ChaosRoad road, uint32_t keep) const;
  absl::StatusOr<Undisturbed*> TrainUndisturbed(ChaosRoad road);
  // Returns the links that a job of this road uses in a round of this kind.
  std::vector<Link> LinksOf(ChaosKind kind, ChaosRoad road) const;
  // Starts to move partitions away from this server, to the others.
  absl::Status Drain(const std::string& server);
  absl::Status EndDrains();
  // Returns the job's checkpoints that the coordinator lists.
  absl::StatusOr<std::vector<CommittedCheckpoint>> Listed(const std::string& job_id);
  // Waits until a job that has ended has no more checkpoints than it keeps: the one that it went
  // back to is retired after the end.
  absl::Status AwaitRetired(const std::string& job_id, uint32_t keep);
  // Calls Look of `committed` if the job has a newer checkpoint than at the last look.
  absl::Status Look(const v1::JobStatus& status, CommittedFiles& committed);
  // Submits through a link that gets a fault while the answer is under way. Exactly one job must
  // come of it.
  absl::StatusOr<std::string> SubmitOverFaultyLink(const v1::JobSpec& job, uint64_t seed);
  // Returns the daemon of a worker that has a task, or nothing if there is none.
  std::optional<ClusterProcess> BusyWorker(const Philox& random, uint64_t number) const;
  // Kills the daemon or one of its tasks, if any of these runs.
  void Kill(const std::string& daemon, uint64_t seed, ChaosOutcome& outcome);
  // Waits until the MANIFEST of a checkpoint after the one at `clock` is there, for a short time.
  // The job takes a checkpoint at every step. Returns the checkpoint's clock, or nothing if none
  // came.
  absl::optional<uint64_t> AwaitNextCommit(const std::string& job_id, uint64_t clock) const;
  // Checks that all committed files are unchanged; if so, returns how the job `ended`.
  absl::Status CheckFiles(const std::string& job_id, const absl::Status& ended,
                          CommittedFiles& committed, ChaosOutcome& outcome);
  // Checks that all existing checkpoints, the last one among them, hold an undisturbed run's
  // weights.
  absl::Status CheckWeights(const std::string& job_id, ChaosRoad road,
                            const CommittedFiles& committed, ChaosOutcome& outcome);

  const Options options_;
  LocalStorage storage_;
  // Outlives the cluster.
  std::unique_ptr<ClusterLinks> links_;
  ChaosCluster cluster_;
  std::map<ChaosRoad, Undisturbed> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_
