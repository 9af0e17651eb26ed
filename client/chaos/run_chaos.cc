#include "client/chaos/run_chaos.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/chaos/cluster_rounds.h"
#include "client/spawn.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::StatusOr<ChaosOutcome> RunRound(const ChaosRound& round, const ChaosOptions& options,
                                      const std::string& server, ClusterRounds& cluster) {
  switch (round.kind) {
    case ChaosKind::kKilledCluster:
      return cluster.RunKilled(round.seed, options.kills);
    case ChaosKind::kLostVolume:
      return cluster.RunLostVolume(round.seed);
    case ChaosKind::kDamagedCheckpoint:
      return cluster.RunDamagedCheckpoint(round.seed);
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

std::string ChaosSummary::Describe() const {
  std::string text =
      absl::StrCat(rounds, rounds == 1 ? " round, " : " rounds, ", kills, " kills, ", lost_volumes,
                   " lost volumes, ", damages, " damaged files (", found, " found, ", named,
                   " of them named; the others were not needed): ");
  if (failed == 0) return text + "nothing was lost";
  return absl::StrCat(text, failed, failed == 1 ? " round" : " rounds", " FAILED");
}

absl::StatusOr<ChaosSummary> RunChaos(const ChaosOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const std::string server, FindProgram("muster-server"));
  ChaosSummary summary;
  ClusterRounds cluster(options.folder + "/cluster");
  for (const ChaosRound& round : PlanChaos(options.rounds, options.seed)) {
    const absl::StatusOr<ChaosOutcome> outcome = RunRound(round, options, server, cluster);
    ++summary.rounds;
    if (outcome.ok()) {
      summary.kills += outcome->kills;
      summary.lost_volumes += outcome->lost_volumes;
      summary.damages += outcome->damages;
      summary.found += outcome->found;
      summary.named += outcome->named;
    } else {
      ++summary.failed;
    }
    options.ended(round, outcome);
  }
  return summary;
}

}  // namespace muster
