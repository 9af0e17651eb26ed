#include "client/chaos/run_chaos.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/chaos/cluster_rounds.h"
#include "client/chaos/link_rounds.h"
#include "client/cluster/spawn.h"
#include "client/terminal/format.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Recoveries wait for it.
constexpr absl::Duration kLease = absl::Seconds(3);
// Time for tasks to come back, and to train, before a server that is away counts as lost.
constexpr absl::Duration kLongLease = absl::Seconds(6);
// The job trains on while a worker stands still, and is to meet several such faults.
constexpr uint64_t kFrozenSteps = 2400;
// Time for which a worker must be slow before the job leaves it, and steps that take longer.
constexpr absl::Duration kSlowAfter = absl::Seconds(2);
constexpr uint64_t kSlowSteps = 300;

absl::StatusOr<ChaosOutcome> RunRound(const ChaosRound& round, const ChaosOptions& options,
                                      const std::string& server, ClusterRounds& cluster,
                                      ClusterRounds& three_workers, LinkRounds& links,
                                      LinkRounds& patient_links, LinkRounds& spare_worker_links,
                                      LinkRounds& replaced_worker_links) {
  switch (round.kind) {
    case ChaosKind::kKilledCluster:
      return cluster.RunKilled(round.seed, options.kills);
    case ChaosKind::kComingWorkers:
      return three_workers.RunComingWorkers(round.seed, options.kills);
    case ChaosKind::kLostVolume:
      return cluster.RunLostVolume(round.seed);
    case ChaosKind::kDamagedCheckpoint:
      return cluster.RunDamagedCheckpoint(round.seed);
    case ChaosKind::kCutLink:
    case ChaosKind::kHalfOpenLink:
    case ChaosKind::kSlowLink:
    case ChaosKind::kLinksAndKills:
    case ChaosKind::kLinksAndMoves:
      return links.Run(round.kind, round.seed, options.faults);
    case ChaosKind::kCutLinkRewritesCheckpoints:
      return patient_links.RunCutLinkRewritesCheckpoints(round.seed);
    case ChaosKind::kF16RewritesCheckpoint:
      return links.RunF16RewritesCheckpoint(round.seed);
    case ChaosKind::kFrozenWorker:
      return spare_worker_links.RunFrozenWorker(round.seed, options.faults);
    case ChaosKind::kSlowWorker:
      return replaced_worker_links.RunSlowWorker(round.seed);
    case ChaosKind::kKilledServer:
    case ChaosKind::kDamagedFile:
      break;
  }
  const std::string folder = absl::StrCat(options.folder, "/round-", round.number);
  absl::StatusOr<ChaosOutcome> outcome =
      round.kind == ChaosKind::kKilledServer
          ? RunKilledServerRound(server, folder, round.seed, options.kills)
          : RunDamagedFileRound(server, folder, round.seed);
  std::error_code ignored;
  if (outcome.ok()) {
    std::filesystem::remove_all(folder, ignored);
    return outcome;
  }
  return absl::Status(outcome.status().code(),
                      absl::StrCat(outcome.status().message(), "; the files are in ", folder));
}

}  // namespace

int ChaosSummary::rounds() const {
  int rounds = 0;
  for (const auto& [name, kind] : kinds) rounds += kind.rounds;
  return rounds;
}

int ChaosSummary::failed() const {
  size_t failed = 0;
  for (const auto& [name, kind] : kinds) failed += kind.failed.size();
  return static_cast<int>(failed);
}

std::string ChaosSummary::Describe() const {
  std::vector<std::vector<std::string>> table = {{"kind", "rounds", "recovered", "lost"}};
  for (const auto& [name, kind] : kinds) {
    table.push_back({ChaosName(name), absl::StrCat(kind.rounds),
                     absl::StrCat(kind.rounds - static_cast<int>(kind.failed.size())),
                     kind.failed.empty()
                         ? "nothing"
                         : absl::StrCat("see round ", absl::StrJoin(kind.failed, ", "))});
  }
  std::string text = absl::StrCat(
      FormatTable(table), rounds(), rounds() == 1 ? " round, " : " rounds, ", sum.kills, " kills, ",
      sum.lost_volumes, " lost volumes, ", sum.damages, " damaged files (", sum.found, " found, ",
      sum.named, " of them named; the others were not needed), ", sum.link_faults, " link faults, ",
      sum.freezes, " frozen workers, ", sum.slowed, " slow workers (", sum.left, " left), ",
      sum.checkpoints, " checkpoints compared: ");
  if (failed() == 0) return text + "nothing was lost";
  return absl::StrCat(text, failed(), failed() == 1 ? " round" : " rounds", " FAILED");
}

absl::StatusOr<ChaosSummary> RunChaos(const ChaosOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const std::string server, FindProgram("muster-server"));
  ChaosSummary summary;
  ClusterRounds cluster(options.folder + "/cluster");
  ClusterRounds three_workers(options.folder + "/three-workers", /*workers=*/3);
  LinkRounds links(options.folder + "/links", {.lease = kLease});
  LinkRounds patient_links(options.folder + "/patient-links", {.lease = kLongLease});
  LinkRounds spare_worker_links(options.folder + "/spare-worker",
                                {.lease = kLease,
                                 .workers = 3,
                                 .steps = kFrozenSteps,
                                 .checkpoint_every = kFrozenSteps / 60});
  LinkRounds replaced_worker_links(
      options.folder + "/replaced-worker",
      {.lease = kLease,
       .workers = 3,
       .steps = kSlowSteps,
       .checkpoint_every = kSlowSteps / 60,
       // A worker is slow by what its tasks compute.
       .computes = true,
       .coordinator_flags = {
           absl::StrCat("--slow-after-ms=", absl::ToInt64Milliseconds(kSlowAfter))}});
  for (const ChaosRound& round : PlanChaos(options.rounds, options.seed, options.kinds)) {
    const absl::StatusOr<ChaosOutcome> outcome =
        RunRound(round, options, server, cluster, three_workers, links, patient_links,
                 spare_worker_links, replaced_worker_links);
    ChaosSummary::Kind& kind = summary.kinds[round.kind];
    ++kind.rounds;
    if (outcome.ok()) {
      summary.sum.kills += outcome->kills;
      summary.sum.link_faults += outcome->link_faults;
      summary.sum.freezes += outcome->freezes;
      summary.sum.slowed += outcome->slowed;
      summary.sum.left += outcome->left;
      summary.sum.checkpoints += outcome->checkpoints;
      summary.sum.lost_volumes += outcome->lost_volumes;
      summary.sum.damages += outcome->damages;
      summary.sum.found += outcome->found;
      summary.sum.named += outcome->named;
    } else {
      kind.failed.push_back(round.number);
    }
    options.ended(round, outcome);
  }
  return summary;
}

}  // namespace muster
