#ifndef MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
#include "client/chaos/faults/link_plan.h"
#include "client/chaos/server_rounds.h"
#include "common/checkpoint/local_storage.h"

namespace muster {

// Rounds on one cluster of this machine whose links go wrong, alone and together with kills. At the
// end of each, every checkpoint that was ever committed must be as it was, or retired by newer
// ones, and hold the weights of an undisturbed run at its clock. Single-threaded.
class LinkRounds {
 public:
  // The cluster, whose daemons have leases of `lease`, lives in `folder`, from the first round to
  // the end of this object.
  LinkRounds(std::string folder, absl::Duration lease)
      : lease_(lease), cluster_(std::move(folder)) {}

  // One round each; see ChaosKind. An error says what was lost, or what else went wrong.
  // `kind`: one of those with random link faults, `faults` of them.
  absl::StatusOr<ChaosOutcome> Run(ChaosKind kind, uint64_t seed, int faults);
  absl::StatusOr<ChaosOutcome> RunCutLinkRewritesCheckpoints(uint64_t seed);
  absl::StatusOr<ChaosOutcome> RunF16RewritesCheckpoint(uint64_t seed);

 private:
  // A run that nobody disturbs: its job, whose checkpoints all stay, and their weights as they are
  // asked for.
  struct Undisturbed {
    std::string job_id;
    std::map<uint64_t, ExportedWeights> weights;
  };

  absl::Status StartCluster();
  absl::StatusOr<Undisturbed*> TrainUndisturbed(ChaosRoad road);
  // Links that a job of this road uses, in a round of this kind.
  std::vector<Link> LinksOf(ChaosKind kind, ChaosRoad road) const;
  // Partitions move away from this server, to the others.
  absl::Status Drain(const std::string& server);
  absl::Status EndDrains();
  // What the coordinator lists of a job.
  absl::StatusOr<std::vector<CommittedCheckpoint>> Listed(const std::string& job_id);
  // Looks whenever the job has one more checkpoint than at the last look.
  absl::Status Look(const v1::JobStatus& status, CommittedFiles& committed);
  // Submits by way of a link that goes wrong while the answer is out: one job must come of it.
  absl::StatusOr<std::string> SubmitOverFaultyLink(const v1::JobSpec& job, uint64_t seed);
  // Kills the daemon, or a task of it, if one of these runs.
  void Kill(const std::string& daemon, uint64_t seed, ChaosOutcome& outcome);
  // Waits until a checkpoint after the one at `clock`, of a job with one at every step, has its
  // MANIFEST, and not long; its clock, if it came.
  absl::optional<uint64_t> AwaitNextCommit(const std::string& job_id, uint64_t clock) const;
  // That all committed files are as they were; and if so, how the job `ended`.
  absl::Status CheckFiles(const std::string& job_id, const absl::Status& ended,
                          CommittedFiles& committed, ChaosOutcome& outcome);
  // That all checkpoints that are there, the last one among them, hold an undisturbed run's
  // weights.
  absl::Status CheckWeights(const std::string& job_id, ChaosRoad road,
                            const CommittedFiles& committed, ChaosOutcome& outcome);

  const absl::Duration lease_;
  LocalStorage storage_;
  // Goes after the cluster.
  std::unique_ptr<ClusterLinks> links_;
  ChaosCluster cluster_;
  std::map<ChaosRoad, Undisturbed> undisturbed_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_LINK_ROUNDS_H_
