#include "client/chaos/cluster_rounds.h"

#include <signal.h>

#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/chaos/faults/cluster_processes.h"
#include "client/chaos/faults/file_damage.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr uint64_t kClusterSteps = 1000;
constexpr uint64_t kClusterCheckpointEvery = kClusterSteps / 10;
constexpr int kClusterServers = 2;
constexpr absl::Duration kLongestPause = absl::Milliseconds(600);

v1::JobSpec ClusterJob(ChaosRoad road) {
  return ChaosJob(road, kClusterSteps, kClusterCheckpointEvery);
}

}  // namespace

absl::Status ClusterRounds::StartCluster() {
  if (cluster_.running()) return absl::OkStatus();
  return cluster_.Start({.servers = kClusterServers, .workers = workers_});
}

absl::StatusOr<const ExportedWeights*> ClusterRounds::Undisturbed(ChaosRoad road) {
  auto found = undisturbed_.find(road);
  if (found == undisturbed_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(ClusterJob(road)));
    ChaosOutcome outcome;
    MUSTER_RETURN_IF_ERROR(Torment(id, 0, 0, outcome));
    MUSTER_ASSIGN_OR_RETURN(ExportedWeights weights, cluster_.Weights(id));
    found = undisturbed_.emplace(road, std::move(weights)).first;
  }
  return &found->second;
}

absl::Status ClusterRounds::Torment(const std::string& job_id, uint64_t seed, int kills,
                                    ChaosOutcome& outcome, Victims victims) {
  const Philox random(seed, "chaos", "killed cluster");
  std::vector<std::string> killed;
  const auto next_pause = [&] {
    return absl::Now() + kLongestPause * static_cast<double>(random.Uniform(killed.size(), 1));
  };
  absl::Time kill_at = next_pause();
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    // Kills before the first step would try the start again and again, and nothing else.
    if (killed.size() < static_cast<size_t>(kills) && status.progress().step() > 0 &&
        absl::Now() >= kill_at) {
      std::vector<ClusterProcess> processes = ClusterProcesses(cluster_.supervisor());
      if (victims == Victims::kWorkers) {
        std::erase_if(processes, [](const ClusterProcess& each) {
          return each.is_task || !absl::StartsWith(each.daemon, "worker-");
        });
      }
      if (!processes.empty()) {
        const ClusterProcess& victim = processes[random.Below(processes.size(), killed.size(), 2)];
        const bool notice = victims == Victims::kWorkers && random.Below(3, killed.size(), 3) > 0;
        if (kill(victim.pid, notice ? SIGTERM : SIGKILL) == 0) {
          killed.push_back(absl::StrCat(notice ? "(with notice) " : "", victim.Name()));
        }
        kill_at = next_pause();
      }
    }
    return true;
  };
  const auto describe = [&killed] {
    return absl::StrCat(killed.empty() ? "nobody was killed" : "killed ",
                        absl::StrJoin(killed, ", "));
  };
  const absl::Status status = cluster_.Await(job_id, turn, describe);
  outcome.kills += static_cast<int>(killed.size());
  outcome.what = describe();
  return status;
}

absl::Status ClusterRounds::CheckWeights(const std::string& job_id, ChaosRoad road,
                                         const ChaosOutcome& outcome) {
  MUSTER_ASSIGN_OR_RETURN(const ExportedWeights* expected, Undisturbed(road));
  MUSTER_ASSIGN_OR_RETURN(const ExportedWeights weights, cluster_.Weights(job_id));
  // Sums of other numbers of ranks round otherwise, by some 2e-5 in the mean.
  const bool as_expected =
      road == ChaosRoad::kElastic ? MeanApart(weights, *expected) < 0.0002 : weights == *expected;
  if (!as_expected) {
    return absl::DataLossError(
        absl::StrCat("job ", job_id, "'s weights differ from an undisturbed run's; ", outcome.what,
                     "; logs are in ", cluster_.folder().path()));
  }
  return cluster_.jobs().Delete(job_id);
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunKilled(uint64_t seed, int kills) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const ChaosRoad road = seed % 2 == 0 ? ChaosRoad::kEveryPush : ChaosRoad::kCheckpoint;
  MUSTER_RETURN_IF_ERROR(Undisturbed(road).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(ClusterJob(road)));
  ChaosOutcome outcome;
  MUSTER_RETURN_IF_ERROR(Torment(id, seed, kills, outcome));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, road, outcome));
  outcome.what = absl::StrCat(RoadName(road), ", ", outcome.what,
                              "; the weights are those of an undisturbed run");
  return outcome;
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunComingWorkers(uint64_t seed, int kills) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  constexpr ChaosRoad kRoads[] = {ChaosRoad::kElastic, ChaosRoad::kAllReduce,
                                  ChaosRoad::kEveryPush};
  const ChaosRoad road = kRoads[seed % 3];
  MUSTER_RETURN_IF_ERROR(Undisturbed(road).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(ClusterJob(road)));
  ChaosOutcome outcome;
  MUSTER_RETURN_IF_ERROR(Torment(id, seed, kills, outcome, Victims::kWorkers));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, road, outcome));
  outcome.what = absl::StrCat(RoadName(road), ", ", outcome.what,
                              "; the weights are those of an undisturbed run");
  return outcome;
}

absl::Status ClusterRounds::AwaitMiddle(const std::string& job_id, const Philox& random) {
  const uint64_t step = kClusterSteps / 4 + random.Below(kClusterSteps / 4, 1);
  bool there = false;
  MUSTER_RETURN_IF_ERROR(cluster_.Await(
      job_id,
      [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
        there = status.progress().step() >= step &&
                status.checkpoint_clock() >= 2 * kClusterCheckpointEvery;
        return !there;
      },
      [] { return std::string("nobody was killed"); }));
  if (there) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("job ", job_id, " ended before it was seen half way"));
}

absl::Status ClusterRounds::WhileDown(const std::function<bool(const std::string&)>& chosen,
                                      const std::function<absl::Status()>& harm,
                                      ChaosOutcome& outcome) {
  // A supervisor that stands still starts nobody.
  if (kill(cluster_.supervisor(), SIGSTOP) != 0)
    return absl::UnavailableError("the cluster's supervisor is not running any more");
  const auto servers = [&] {
    std::vector<ClusterProcess> found;
    for (ClusterProcess& victim : ClusterProcesses(cluster_.supervisor())) {
      if (absl::StartsWith(victim.daemon, "server-") && chosen(victim.daemon)) {
        found.push_back(std::move(victim));
      }
    }
    return found;
  };
  std::set<pid_t> killed;
  for (std::vector<ClusterProcess> alive = servers(); !alive.empty(); alive = servers()) {
    for (const ClusterProcess& victim : alive) {
      if (kill(victim.pid, SIGKILL) == 0) killed.insert(victim.pid);
    }
  }
  outcome.kills += static_cast<int>(killed.size());
  const absl::Status status = killed.empty() ? absl::UnavailableError("no server ran") : harm();
  kill(cluster_.supervisor(), SIGCONT);
  return status;
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunLostVolume(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  MUSTER_RETURN_IF_ERROR(Undisturbed(ChaosRoad::kEveryPush).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(ClusterJob(ChaosRoad::kEveryPush)));
  const Philox random(seed, "chaos", "lost volume");
  MUSTER_RETURN_IF_ERROR(AwaitMiddle(id, random));
  const std::string server = absl::StrCat("server-", random.Below(kClusterServers, 0));
  ChaosOutcome outcome;
  MUSTER_RETURN_IF_ERROR(WhileDown(
      [&](const std::string& name) { return name == server; },
      [&]() -> absl::Status {
        std::error_code error;
        std::filesystem::remove_all(cluster_.folder().DataOf(server), error);
        return error
                   ? absl::UnavailableError(absl::StrCat(
                         "cannot remove ", cluster_.folder().DataOf(server), ": ", error.message()))
                   : absl::OkStatus();
      },
      outcome));
  ++outcome.lost_volumes;
  ChaosOutcome end;
  MUSTER_RETURN_IF_ERROR(Torment(id, seed, 0, end));
  MUSTER_ASSIGN_OR_RETURN(const std::string back,
                          cluster_.FindEvent(id, "lost what it had acknowledged"));
  outcome.what = absl::StrCat("removed the data folder of ", server, "; ", back);
  if (back.empty() || !absl::StrContains(back, server)) {
    return absl::DataLossError(absl::StrCat("job ", id, " never said that ", server,
                                            "'s data folder was lost; logs are in ",
                                            cluster_.folder().path()));
  }
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, ChaosRoad::kEveryPush, outcome));
  absl::StrAppend(&outcome.what, "; the weights are those of an undisturbed run");
  return outcome;
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunDamagedCheckpoint(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  MUSTER_RETURN_IF_ERROR(Undisturbed(ChaosRoad::kCheckpoint).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id,
                          cluster_.Submit(ClusterJob(ChaosRoad::kCheckpoint)));
  const Philox random(seed, "chaos", "damaged checkpoint");
  MUSTER_RETURN_IF_ERROR(AwaitMiddle(id, random));
  ChaosOutcome outcome;
  FileDamage damage;
  uint64_t clock = 0;
  MUSTER_RETURN_IF_ERROR(WhileDown([](const std::string&) { return true; },
                                   [&]() -> absl::Status {
                                     v1::JobStatus status;
                                     MUSTER_RETURN_IF_ERROR(cluster_.jobs().Get(id, status));
                                     clock = status.checkpoint_clock();
                                     MUSTER_ASSIGN_OR_RETURN(
                                         damage, DamageOneFile(status.checkpoint_uri(), seed));
                                     return absl::OkStatus();
                                   },
                                   outcome));
  ++outcome.damages;
  outcome.what = absl::StrCat("of the checkpoint at clock ", clock, " ", damage.Describe());
  ChaosOutcome end;
  absl::Status ended = Torment(id, seed, 0, end);
  if (!ended.ok()) {
    return absl::Status(ended.code(), absl::StrCat(outcome.what, ": ", ended.message()));
  }
  MUSTER_ASSIGN_OR_RETURN(
      std::string found,
      cluster_.FindEvent(id, absl::StrCat("checkpoint at clock ", clock, " is damaged")));
  // If the job had ended by then, no task needs the checkpoint, but its weights are read from it.
  absl::Status read;
  if (found.empty() && clock == kClusterSteps) read = cluster_.Weights(id).status();
  if (!read.ok()) found = std::string(read.message());
  // Another checkpoint may have been completed from what had been written just before.
  if (!found.empty()) {
    ++outcome.found;
    if (absl::StrContains(found, std::filesystem::path(damage.file).filename().string())) {
      ++outcome.named;
    }
  }
  absl::StrAppend(&outcome.what, "; ", found.empty() ? "nothing needed it" : found);
  if (!read.ok()) {
    // It must be the damage that it fails for.
    if (outcome.named == 0) return read;
    MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
    return outcome;
  }
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, ChaosRoad::kCheckpoint, outcome));
  absl::StrAppend(&outcome.what, "; the weights are those of an undisturbed run");
  return outcome;
}

}  // namespace muster
