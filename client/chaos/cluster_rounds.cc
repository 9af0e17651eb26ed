#include "client/chaos/cluster_rounds.h"

#include <signal.h>

#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/chaos/file_damage.h"
#include "client/chaos/process_tree.h"
#include "client/local_cluster.h"
#include "client/progress.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr uint64_t kSteps = 2000;
constexpr uint64_t kCheckpointEvery = kSteps / 10;
constexpr int kServers = 2;
constexpr absl::Duration kPoll = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(600);
// A job of some seconds; recoveries wait for a lease each.
constexpr absl::Duration kPatience = absl::Minutes(5);

v1::JobSpec ChaosJob(bool every_push) {
  v1::JobSpec job;
  job.set_name("chaos");
  auto& model = *job.mutable_model()->mutable_deep_fm();
  model.set_embedding_dim(8);
  model.add_hidden(32);
  auto& data = *job.mutable_data()->mutable_synthetic_clicks();
  data.set_examples(20000);
  data.set_fields(6);
  data.set_cardinality(2000);
  data.set_numeric(2);
  data.set_seed(5);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adagrad");
  job.mutable_optimizer()->set_learning_rate(0.05f);
  auto& update = *job.mutable_update();
  update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_durability(every_push ? v1::UpdateSpec::EVERY_PUSH : v1::UpdateSpec::CHECKPOINT);
  update.set_deterministic(true);
  update.set_partitions(4);
  job.set_workers(2);
  job.set_batch_size(64);
  job.mutable_stop()->set_steps(kSteps);
  job.mutable_sparse_tables()->set_expire_after_clocks(100);
  job.mutable_checkpoint()->set_every_steps(kCheckpointEvery);
  job.mutable_checkpoint()->set_full_every(3);
  job.set_seed(11);
  return job;
}

struct Victim {
  std::string name;
  pid_t pid = 0;
};

// The supervisor's daemons, and the tasks of workers.
std::vector<Victim> Victims(pid_t supervisor) {
  constexpr char kId[] = "--id=";
  std::vector<Victim> victims;
  for (const RunningProcess& daemon : ChildrenOf(supervisor)) {
    std::string name = "coordinator";
    for (const std::string& word : daemon.command) {
      if (absl::StartsWith(word, kId)) name = word.substr(sizeof(kId) - 1);
    }
    for (const RunningProcess& task : ChildrenOf(daemon.pid)) {
      victims.push_back({"a task of " + name, task.pid});
    }
    victims.push_back({name, daemon.pid});
  }
  return victims;
}

}  // namespace

ClusterRounds::~ClusterRounds() {
  if (supervisor_ != 0) StopLocalCluster(folder_).IgnoreError();
}

absl::Status ClusterRounds::StartCluster() {
  if (supervisor_ != 0) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(
      const LocalCluster cluster,
      StartLocalCluster(folder_,
                        {.servers = kServers, .life = LocalClusterOptions::Life::kOfThisProcess}));
  supervisor_ = cluster.supervisor_pid;
  jobs_ = std::make_unique<JobClient>(cluster.coordinator_address, RpcCredentials::PlainText());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ClusterRounds::Submit(const v1::JobSpec& job) {
  std::string id;
  MUSTER_RETURN_IF_ERROR(jobs_->Submit(job, id));
  return id;
}

absl::StatusOr<ExportedWeights> ClusterRounds::Weights(const std::string& job_id) {
  std::string file;
  v1::CheckpointRequest last;
  last.set_job_id(job_id);
  MUSTER_RETURN_IF_ERROR(jobs_->Export(last, [&file](absl::string_view data) {
    file.append(data.data(), data.size());
    return absl::OkStatus();
  }));
  return ParseWeights(file);
}

absl::StatusOr<const ExportedWeights*> ClusterRounds::Undisturbed(bool every_push) {
  auto found = undisturbed_.find(every_push);
  if (found == undisturbed_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string id, Submit(ChaosJob(every_push)));
    ChaosOutcome outcome;
    MUSTER_RETURN_IF_ERROR(Torment(id, 0, 0, outcome));
    MUSTER_ASSIGN_OR_RETURN(ExportedWeights weights, Weights(id));
    found = undisturbed_.emplace(every_push, std::move(weights)).first;
  }
  return &found->second;
}

absl::Status ClusterRounds::Torment(const std::string& job_id, uint64_t seed, int kills,
                                    ChaosOutcome& outcome) {
  const Philox random(seed, "chaos", "killed cluster");
  const absl::Time until = absl::Now() + kPatience;
  std::vector<std::string> killed;
  const auto next_pause = [&] {
    return absl::Now() + kLongestPause * static_cast<double>(random.Uniform(killed.size(), 1));
  };
  absl::Time kill_at = next_pause();
  v1::JobStatus status;
  while (true) {
    MUSTER_RETURN_IF_ERROR(jobs_->Get(job_id, status));
    if (HasEnded(status)) break;
    if (absl::Now() > until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "job ", job_id, " hangs: ", ProgressLine(status, 0), " ", status.message(),
          "; killed were ", absl::StrJoin(killed, ", "), "; logs are in ", folder_.path()));
    }
    // Kills before the first step would try the start again and again, and nothing else.
    if (killed.size() < static_cast<size_t>(kills) && status.progress().step() > 0 &&
        absl::Now() >= kill_at) {
      const std::vector<Victim> victims = Victims(supervisor_);
      if (!victims.empty()) {
        const Victim& victim = victims[random.Below(victims.size(), killed.size(), 2)];
        if (kill(victim.pid, SIGKILL) == 0) killed.push_back(victim.name);
        kill_at = next_pause();
      }
    }
    absl::SleepFor(kPoll);
  }
  outcome.kills += static_cast<int>(killed.size());
  outcome.what =
      absl::StrCat(killed.empty() ? "nobody was killed" : "killed ", absl::StrJoin(killed, ", "));
  if (status.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " ended as ", StateName(status), ": ", status.message(), "; ",
                     outcome.what, "; logs are in ", folder_.path()));
  }
  return absl::OkStatus();
}

absl::Status ClusterRounds::CheckWeights(const std::string& job_id, bool every_push,
                                         const ChaosOutcome& outcome) {
  MUSTER_ASSIGN_OR_RETURN(const ExportedWeights* expected, Undisturbed(every_push));
  MUSTER_ASSIGN_OR_RETURN(const ExportedWeights weights, Weights(job_id));
  if (weights != *expected) {
    return absl::DataLossError(absl::StrCat("job ", job_id,
                                            "'s weights differ from an undisturbed run's; ",
                                            outcome.what, "; logs are in ", folder_.path()));
  }
  return jobs_->Delete(job_id);
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunKilled(uint64_t seed, int kills) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const bool every_push = seed % 2 == 0;
  MUSTER_RETURN_IF_ERROR(Undisturbed(every_push).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, Submit(ChaosJob(every_push)));
  ChaosOutcome outcome;
  MUSTER_RETURN_IF_ERROR(Torment(id, seed, kills, outcome));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, every_push, outcome));
  outcome.what = absl::StrCat(every_push ? "EVERY_PUSH, " : "CHECKPOINT, ", outcome.what,
                              "; the weights are those of an undisturbed run");
  return outcome;
}

absl::Status ClusterRounds::AwaitMiddle(const std::string& job_id, const Philox& random) {
  const uint64_t step = kSteps / 4 + random.Below(kSteps / 4, 1);
  const absl::Time until = absl::Now() + kPatience;
  v1::JobStatus status;
  while (status.progress().step() < step || status.checkpoint_clock() < 2 * kCheckpointEvery) {
    MUSTER_RETURN_IF_ERROR(jobs_->Get(job_id, status));
    if (HasEnded(status) || absl::Now() > until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "job ", job_id, " is not half way: ", ProgressLine(status, 0), " ", status.message()));
    }
    absl::SleepFor(kPoll);
  }
  return absl::OkStatus();
}

absl::Status ClusterRounds::WhileDown(const std::function<bool(const std::string&)>& chosen,
                                      const std::function<absl::Status()>& harm,
                                      ChaosOutcome& outcome) {
  // A supervisor that stands still starts nobody.
  if (kill(supervisor_, SIGSTOP) != 0) return absl::UnavailableError("the supervisor has gone");
  const auto servers = [&] {
    std::vector<Victim> found;
    for (Victim& victim : Victims(supervisor_)) {
      if (absl::StartsWith(victim.name, "server-") && chosen(victim.name)) {
        found.push_back(std::move(victim));
      }
    }
    return found;
  };
  std::set<pid_t> killed;
  for (std::vector<Victim> alive = servers(); !alive.empty(); alive = servers()) {
    for (const Victim& victim : alive) {
      if (kill(victim.pid, SIGKILL) == 0) killed.insert(victim.pid);
    }
  }
  outcome.kills += static_cast<int>(killed.size());
  const absl::Status status = killed.empty() ? absl::UnavailableError("no server ran") : harm();
  kill(supervisor_, SIGCONT);
  return status;
}

absl::StatusOr<std::string> ClusterRounds::FindEvent(const std::string& job_id,
                                                     absl::string_view text) {
  v1::ListEventsReply reply;
  MUSTER_RETURN_IF_ERROR(jobs_->Events(job_id, reply));
  for (const v1::JobEvent& event : reply.events()) {
    if (absl::StrContains(event.text(), text)) return event.text();
  }
  return std::string();
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunLostVolume(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  MUSTER_RETURN_IF_ERROR(Undisturbed(/*every_push=*/true).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, Submit(ChaosJob(/*every_push=*/true)));
  const Philox random(seed, "chaos", "lost volume");
  MUSTER_RETURN_IF_ERROR(AwaitMiddle(id, random));
  const std::string server = absl::StrCat("server-", random.Below(kServers, 0));
  ChaosOutcome outcome;
  MUSTER_RETURN_IF_ERROR(WhileDown([&](const std::string& name) { return name == server; },
                                   [&]() -> absl::Status {
                                     std::error_code error;
                                     std::filesystem::remove_all(folder_.DataOf(server), error);
                                     return error ? absl::UnavailableError(absl::StrCat(
                                                        "cannot remove ", folder_.DataOf(server),
                                                        ": ", error.message()))
                                                  : absl::OkStatus();
                                   },
                                   outcome));
  ++outcome.lost_volumes;
  ChaosOutcome end;
  MUSTER_RETURN_IF_ERROR(Torment(id, seed, 0, end));
  MUSTER_ASSIGN_OR_RETURN(const std::string back, FindEvent(id, "lost what it had acknowledged"));
  outcome.what = absl::StrCat("removed the data folder of ", server, "; ", back);
  if (back.empty() || !absl::StrContains(back, server)) {
    return absl::DataLossError(absl::StrCat("job ", id, " never said that ", server,
                                            "'s data folder was lost; logs are in ",
                                            folder_.path()));
  }
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, /*every_push=*/true, outcome));
  absl::StrAppend(&outcome.what, "; the weights are those of an undisturbed run");
  return outcome;
}

absl::StatusOr<ChaosOutcome> ClusterRounds::RunDamagedCheckpoint(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  MUSTER_RETURN_IF_ERROR(Undisturbed(/*every_push=*/false).status());
  MUSTER_ASSIGN_OR_RETURN(const std::string id, Submit(ChaosJob(/*every_push=*/false)));
  const Philox random(seed, "chaos", "damaged checkpoint");
  MUSTER_RETURN_IF_ERROR(AwaitMiddle(id, random));
  ChaosOutcome outcome;
  FileDamage damage;
  uint64_t clock = 0;
  MUSTER_RETURN_IF_ERROR(WhileDown([](const std::string&) { return true; },
                                   [&]() -> absl::Status {
                                     v1::JobStatus status;
                                     MUSTER_RETURN_IF_ERROR(jobs_->Get(id, status));
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
      std::string found, FindEvent(id, absl::StrCat("checkpoint at clock ", clock, " is damaged")));
  // Where the job had ended by then, no task goes back to it, but the weights are read from it.
  absl::Status read;
  if (found.empty() && clock == kSteps) read = Weights(id).status();
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
    MUSTER_RETURN_IF_ERROR(jobs_->Delete(id));
    return outcome;
  }
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, /*every_push=*/false, outcome));
  absl::StrAppend(&outcome.what, "; the weights are those of an undisturbed run");
  return outcome;
}

}  // namespace muster
