#include "client/chaos/link_rounds.h"

#include <signal.h>

#include <array>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/chaos/faults/frozen_worker.h"
#include "client/chaos/faults/slowed_worker.h"
#include "client/cluster/job_client.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/checkpoint.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr int kLinkServers = 2;
// Number of checkpoints to keep: none is retired.
constexpr uint32_t kKeepAll = 1000000;
// The server is back and forgotten by nobody, and its lease as good as over.
constexpr double kDownOfLease = 0.9;
constexpr size_t kCommittedBeforeKill = 3;
// A frozen worker's lease is over by then, and its slot may have a new task.
constexpr double kShortestFreezeOfLease = 1.2;
constexpr double kLongestFreezeOfLease = 2.5;
// Longest time from the first step after a freeze to the next one.
constexpr absl::Duration kLongestFreezePause = absl::Milliseconds(600);
// Longest time that tasks go on before their daemon does.
constexpr absl::Duration kLongestLead = absl::Milliseconds(500);
constexpr int kF16Kills = 8;
// Steps of the job in f16 between a kill and the next: it must have gone on.
constexpr uint64_t kStepsBetweenKills = 3;
// Examples and width of a job that computes for most of its time.
constexpr uint32_t kComputingBatch = 2048;
constexpr uint32_t kComputingWidth = 512;
// Roads of jobs whose workers are frozen or slow.
constexpr std::array<ChaosRoad, 5> kRoads = {ChaosRoad::kEveryPush, ChaosRoad::kCheckpoint,
                                             ChaosRoad::kAllReduce, ChaosRoad::kZeroEveryPush,
                                             ChaosRoad::kZeroAllReduce};
// Longest time to wait for that job's next commit, and the interval at which it is looked for,
// which is shorter than a step.
constexpr absl::Duration kCommitPatience = absl::Seconds(2);
constexpr absl::Duration kCommitPoll = absl::Microseconds(300);
constexpr absl::Duration kRetirePatience = absl::Seconds(20);
constexpr absl::Duration kListPoll = absl::Milliseconds(10);
constexpr absl::Duration kAnswerPatience = absl::Seconds(20);

}  // namespace

v1::JobSpec LinkRounds::LinkJob(ChaosRoad road, uint32_t keep) const {
  v1::JobSpec job = ChaosJob(road, options_.steps, options_.checkpoint_every);
  job.mutable_checkpoint()->set_keep(keep);
  if (options_.computes) {
    job.set_batch_size(kComputingBatch);
    v1::DeepFmSpec& model = *job.mutable_model()->mutable_deep_fm();
    model.clear_hidden();
    for (int layer = 0; layer < 2; ++layer) model.add_hidden(kComputingWidth);
  }
  return job;
}

absl::Status LinkRounds::StartCluster() {
  if (cluster_.running()) return cluster_.AwaitCoordinator();
  MUSTER_ASSIGN_OR_RETURN(links_, ClusterLinks::Create(kLinkServers, options_.workers));
  LocalClusterOptions options;
  options.servers = kLinkServers;
  options.workers = options_.workers;
  options.port = links_->coordinator_port();
  options.daemon_flags = links_->daemon_flags();
  options.daemon_flags.push_back(
      absl::StrCat("coordinator:--lease-ms=", absl::ToInt64Milliseconds(options_.lease)));
  for (const std::string& flag : options_.coordinator_flags) {
    options.daemon_flags.push_back("coordinator:" + flag);
  }
  MUSTER_RETURN_IF_ERROR(cluster_.Start(std::move(options)));
  links_->SetSupervisor(cluster_.supervisor());
  return absl::OkStatus();
}

absl::StatusOr<LinkRounds::Undisturbed*> LinkRounds::TrainUndisturbed(ChaosRoad road) {
  auto found = undisturbed_.find(road);
  if (found == undisturbed_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(LinkJob(road, kKeepAll)));
    MUSTER_RETURN_IF_ERROR(cluster_.Await(
        id, [](const v1::JobStatus&) { return true; },
        [] { return std::string("nobody disturbed it"); }));
    found = undisturbed_.emplace(road, Undisturbed{.job_id = id, .weights = {}}).first;
  }
  return &found->second;
}

std::vector<Link> LinkRounds::LinksOf(ChaosKind kind, ChaosRoad road) const {
  const auto is_server = [](const std::string& name) { return name.rfind("server-", 0) == 0; };
  const auto is_worker = [](const std::string& name) { return name.rfind("worker-", 0) == 0; };
  std::vector<Link> links = links_->links();
  std::erase_if(links, [&](const Link& link) {
    const bool of_moves = is_server(link.caller) && is_server(link.called);
    if (of_moves || kind == ChaosKind::kLinksAndMoves) {
      return of_moves != (kind == ChaosKind::kLinksAndMoves);
    }
    return road == ChaosRoad::kAllReduce ? is_server(link.caller) || is_server(link.called)
                                         : is_worker(link.called);
  });
  return links;
}

absl::Status LinkRounds::EndDrains() {
  for (int i = 0; i < kLinkServers; ++i) {
    v1::DrainServerRequest request;
    request.set_server_id(absl::StrCat("server-", i));
    request.set_undo(true);
    v1::DrainServerReply reply;
    MUSTER_RETURN_IF_ERROR(cluster_.jobs().DrainServer(request, reply));
  }
  return absl::OkStatus();
}

absl::Status LinkRounds::Drain(const std::string& server) {
  MUSTER_RETURN_IF_ERROR(EndDrains());
  v1::DrainServerRequest request;
  request.set_server_id(server);
  v1::DrainServerReply reply;
  return cluster_.jobs().DrainServer(request, reply);
}

absl::StatusOr<std::vector<CommittedCheckpoint>> LinkRounds::Listed(const std::string& job_id) {
  v1::ListCheckpointsReply reply;
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Checkpoints(job_id, reply));
  std::vector<CommittedCheckpoint> listed;
  for (const v1::CheckpointStatus& checkpoint : reply.checkpoints()) {
    listed.push_back({.clock = checkpoint.clock(), .folder = checkpoint.uri()});
  }
  return listed;
}

absl::Status LinkRounds::Look(const v1::JobStatus& status, CommittedFiles& committed) {
  const std::vector<uint64_t> clocks = committed.clocks();
  if (status.checkpoint_clock() == (clocks.empty() ? 0 : clocks.back())) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CommittedCheckpoint> listed, Listed(status.job_id()));
  committed.Look(listed);
  return absl::OkStatus();
}

absl::StatusOr<std::string> LinkRounds::SubmitOverFaultyLink(const v1::JobSpec& job,
                                                             uint64_t seed) {
  const Link link = {"client", "coordinator"};
  const auto heal = absl::MakeCleanup([&] { links_->SetFault(link, {}); });
  JobClient client(links_->client_address(), RpcCredentials::PlainText());
  v1::ListJobsReply before;
  MUSTER_RETURN_IF_ERROR(client.List({}, before));
  // Either the answer is lost, or the question.
  const bool arrives = seed % 2 == 0;
  links_->SetFault(link,
                   {.kind = arrives ? LinkFault::Kind::kToCaller : LinkFault::Kind::kFromCaller});
  std::string id;
  absl::Status submitted;
  std::thread submit([&] { submitted = client.Submit(job, id); });
  v1::ListJobsReply reply;
  absl::Status listed;
  const absl::Time until = absl::Now() + kAnswerPatience;
  while (arrives && listed.ok() && reply.jobs_size() == before.jobs_size() && absl::Now() < until) {
    absl::SleepFor(kListPoll);
    listed = cluster_.jobs().List({}, reply);
  }
  links_->SetFault(link, {.kind = LinkFault::Kind::kCut});
  links_->SetFault(link, {});
  submit.join();
  MUSTER_RETURN_IF_ERROR(listed);
  MUSTER_RETURN_IF_ERROR(submitted);
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().List({}, reply));
  if (reply.jobs_size() != before.jobs_size() + 1) {
    return absl::DataLossError(absl::StrCat("one submit over a link that was cut meanwhile made ",
                                            reply.jobs_size() - before.jobs_size(),
                                            " jobs instead of one"));
  }
  return id;
}

void LinkRounds::Kill(const std::string& daemon, uint64_t seed, ChaosOutcome& outcome) {
  std::vector<ClusterProcess> victims = ClusterProcesses(cluster_.supervisor());
  std::erase_if(victims, [&](const ClusterProcess& process) { return process.daemon != daemon; });
  if (victims.empty()) return;
  const Philox random(seed, "chaos", "victim");
  if (kill(victims[random.Below(victims.size(), 0)].pid, SIGKILL) == 0) ++outcome.kills;
}

absl::Status LinkRounds::CheckFiles(const std::string& job_id, const absl::Status& ended,
                                    CommittedFiles& committed, ChaosOutcome& outcome) {
  // It must not be in the next round's way.
  v1::JobStatus cancelled;
  if (!ended.ok()) cluster_.jobs().Cancel(job_id, "it failed a round", cancelled).IgnoreError();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CommittedCheckpoint> listed, Listed(job_id));
  const absl::Status files = committed.Check(listed);
  outcome.checkpoints += static_cast<int>(committed.seen());
  if (!files.ok()) {
    return absl::Status(files.code(),
                        absl::StrCat("job ", job_id, ": ", files.message(), "; ", outcome.what,
                                     ended.ok() ? "" : absl::StrCat("; ", ended.message()),
                                     "; logs are in ", cluster_.folder().path()));
  }
  absl::StrAppend(&outcome.what, "; ", committed.seen(),
                  " checkpoints stayed as they were committed");
  return ended;
}

absl::Status LinkRounds::CheckWeights(const std::string& job_id, ChaosRoad road,
                                      const CommittedFiles& committed, ChaosOutcome& outcome) {
  const std::vector<uint64_t> clocks = committed.clocks();
  if (clocks.empty() || clocks.back() != options_.steps) {
    return absl::DataLossError(absl::StrCat("job ", job_id, " ended without a checkpoint at clock ",
                                            options_.steps, "; ", outcome.what));
  }
  MUSTER_ASSIGN_OR_RETURN(Undisturbed * undisturbed, TrainUndisturbed(road));
  for (const uint64_t clock : clocks) {
    auto expected = undisturbed->weights.find(clock);
    if (expected == undisturbed->weights.end()) {
      MUSTER_ASSIGN_OR_RETURN(ExportedWeights weights,
                              cluster_.Weights(undisturbed->job_id, clock));
      expected = undisturbed->weights.emplace(clock, std::move(weights)).first;
    }
    MUSTER_ASSIGN_OR_RETURN(const ExportedWeights weights, cluster_.Weights(job_id, clock));
    if (weights != expected->second) {
      return absl::DataLossError(absl::StrCat("job ", job_id, "'s weights at clock ", clock,
                                              " differ from an undisturbed run's; ", outcome.what,
                                              "; logs are in ", cluster_.folder().path()));
    }
  }
  absl::StrAppend(&outcome.what, ", and the weights of the ", clocks.size(),
                  " that are there are those of an undisturbed run");
  return absl::OkStatus();
}

absl::StatusOr<ChaosOutcome> LinkRounds::Run(ChaosKind kind, uint64_t seed, int faults) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const Philox random(seed, "chaos", "link round");
  constexpr std::array<ChaosRoad, 3> kRoads = {ChaosRoad::kEveryPush, ChaosRoad::kCheckpoint,
                                               ChaosRoad::kAllReduce};
  const bool moves = kind == ChaosKind::kLinksAndMoves;
  const ChaosRoad road = moves ? ChaosRoad::kEveryPush : kRoads[random.Below(kRoads.size(), 0)];
  const uint32_t keep = random.Below(2, 1) == 0 ? 2 : kKeepAll;
  const bool over_faulty_link = random.Below(3, 2) == 0;
  MUSTER_ASSIGN_OR_RETURN(const std::string id,
                          over_faulty_link
                              ? SubmitOverFaultyLink(LinkJob(road, keep), random.Uint64(3))
                              : cluster_.Submit(LinkJob(road, keep)));
  ChaosOutcome outcome;
  outcome.what =
      absl::StrCat(RoadName(road), over_faulty_link ? ", submitted over a link that was cut" : "");
  const std::vector<PlannedFault> plan =
      PlanLinkFaults(kind, seed, faults, LinksOf(kind, road), options_.lease);
  std::vector<absl::Time> ends(plan.size(), absl::InfiniteFuture());
  size_t begun = 0;
  absl::Time next = absl::InfiniteFuture();
  CommittedFiles committed(storage_, keep);
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    MUSTER_RETURN_IF_ERROR(Look(status, committed));
    const absl::Time now = absl::Now();
    for (size_t i = 0; i < begun; ++i) {
      if (now < ends[i]) continue;
      links_->SetFault(plan[i].link, {});
      ends[i] = absl::InfiniteFuture();
    }
    // Before the first step there is nothing to lose.
    if (status.progress().step() > 0 && next == absl::InfiniteFuture() && begun < plan.size()) {
      next = now + plan[begun].pause;
    }
    if (now < next) return true;
    const PlannedFault& planned = plan[begun];
    if (!planned.drained.empty()) {
      MUSTER_RETURN_IF_ERROR(Drain(planned.drained));
      absl::SleepFor(planned.lead);
    }
    links_->SetFault(planned.link, planned.fault);
    if (!planned.killed.empty()) Kill(planned.killed, random.Uint64(begun, 4), outcome);
    ends[begun++] = absl::Now() + planned.lasts;
    next = absl::InfiniteFuture();
    ++outcome.link_faults;
    absl::StrAppend(&outcome.what, ", ", planned.Describe());
    return true;
  };
  const absl::Status ended = cluster_.Await(id, turn, [&outcome] { return outcome.what; });
  for (const PlannedFault& planned : plan) links_->SetFault(planned.link, {});
  if (moves) {
    MUSTER_RETURN_IF_ERROR(EndDrains());
    MUSTER_ASSIGN_OR_RETURN(const int moved, cluster_.CountEvents(id, " moved from "));
    absl::StrAppend(&outcome.what, "; partitions moved: ", moved);
  }
  MUSTER_RETURN_IF_ERROR(CheckFiles(id, ended, committed, outcome));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, road, committed, outcome));
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
  return outcome;
}

absl::StatusOr<ChaosOutcome> LinkRounds::RunCutLinkRewritesCheckpoints(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  v1::JobSpec job = LinkJob(ChaosRoad::kCheckpoint, kKeepAll);
  // For a deterministic job, servers keep no values from which a slot could begin again.
  job.mutable_update()->set_deterministic(false);
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(job));
  const std::string server = absl::StrCat("server-", seed % kLinkServers);
  const Link link = {server, "coordinator"};
  ChaosOutcome outcome;
  outcome.what = RoadName(ChaosRoad::kCheckpoint);
  CommittedFiles committed(storage_, kKeepAll);
  absl::Time heal_at = absl::InfiniteFuture();
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    MUSTER_RETURN_IF_ERROR(Look(status, committed));
    if (outcome.link_faults == 0 && committed.seen() >= kCommittedBeforeKill) {
      links_->SetFault(link, {.kind = LinkFault::Kind::kCut});
      Kill(server, seed, outcome);
      heal_at = absl::Now() + options_.lease * kDownOfLease;
      ++outcome.link_faults;
      absl::StrAppend(&outcome.what, ", killed ", server, " after the checkpoint at clock ",
                      committed.clocks().back(), " and cut its link to the coordinator for ",
                      absl::FormatDuration(options_.lease * kDownOfLease));
    }
    if (absl::Now() >= heal_at) {
      links_->SetFault(link, {});
      heal_at = absl::InfiniteFuture();
    }
    return true;
  };
  const absl::Status ended = cluster_.Await(id, turn, [&outcome] { return outcome.what; });
  links_->SetFault(link, {});
  if (outcome.link_faults == 0) {
    return absl::UnavailableError(absl::StrCat("job ", id, " ended before a checkpoint was seen"));
  }
  MUSTER_RETURN_IF_ERROR(CheckFiles(id, ended, committed, outcome));
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
  return outcome;
}

std::optional<ClusterProcess> LinkRounds::BusyWorker(const Philox& random, uint64_t number) const {
  const std::vector<ClusterProcess> processes = ClusterProcesses(cluster_.supervisor());
  std::vector<ClusterProcess> busy;
  // Tasks come before their worker.
  for (size_t i = 1; i < processes.size(); ++i) {
    if (processes[i - 1].is_task && !processes[i].is_task) busy.push_back(processes[i]);
  }
  if (busy.empty()) return std::nullopt;
  return busy[random.Below(busy.size(), number)];
}

absl::StatusOr<ChaosOutcome> LinkRounds::RunFrozenWorker(uint64_t seed, int freezes) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const Philox random(seed, "chaos", "frozen worker");
  const ChaosRoad road = kRoads[random.Below(kRoads.size(), 0)];
  const uint32_t keep = random.Below(2, 1) == 0 ? 2 : kKeepAll;
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(LinkJob(road, keep)));
  ChaosOutcome outcome;
  outcome.what = RoadName(road);
  CommittedFiles committed(storage_, keep);
  std::unique_ptr<FrozenWorker> frozen;
  absl::Time next = absl::InfiniteFuture();
  uint64_t go_on_after = 0;
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    MUSTER_RETURN_IF_ERROR(Look(status, committed));
    const absl::Time now = absl::Now();
    const auto number = static_cast<uint64_t>(outcome.freezes);
    if (frozen != nullptr) {
      if (now < next) return true;
      frozen->ContinueTasks();
      absl::SleepFor(kLongestLead * static_cast<double>(random.Uniform(number, 2)));
      frozen.reset();
      go_on_after = status.progress().step();
      next = absl::InfiniteFuture();
      return true;
    }
    if (outcome.freezes == freezes) return true;
    // There is something to lose, and the job has gone on since the last freeze.
    if (next == absl::InfiniteFuture() && status.progress().step() > go_on_after) {
      next = now + kLongestFreezePause * static_cast<double>(random.Uniform(number, 3));
    }
    if (now < next) return true;
    const std::optional<ClusterProcess> worker = BusyWorker(random, (number << 8) + 4);
    if (!worker.has_value()) return true;
    const absl::Duration lasts =
        options_.lease *
        (kShortestFreezeOfLease + (kLongestFreezeOfLease - kShortestFreezeOfLease) *
                                      static_cast<double>(random.Uniform(number, 5)));
    frozen = std::make_unique<FrozenWorker>(worker->pid);
    next = absl::Now() + lasts;
    ++outcome.freezes;
    absl::StrAppend(&outcome.what, ", ", worker->Name(), " stood still at step ",
                    status.progress().step(), " for ", absl::FormatDuration(lasts));
    return true;
  };
  const absl::Status ended = cluster_.Await(id, turn, [&outcome] { return outcome.what; });
  frozen.reset();
  if (outcome.freezes == 0 && ended.ok()) {
    return absl::UnavailableError(absl::StrCat("job ", id, " ended before a worker was stopped"));
  }
  MUSTER_RETURN_IF_ERROR(CheckFiles(id, ended, committed, outcome));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, road, committed, outcome));
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
  return outcome;
}

absl::Status LinkRounds::AwaitRetired(const std::string& job_id, uint32_t keep) {
  for (const absl::Time until = absl::Now() + kRetirePatience; absl::Now() < until;) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<CommittedCheckpoint> listed, Listed(job_id));
    if (listed.size() <= keep) return absl::OkStatus();
    absl::SleepFor(kListPoll);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("job ", job_id, " has ended and still has more than ", keep, " checkpoints"));
}

absl::StatusOr<ChaosOutcome> LinkRounds::RunSlowWorker(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const Philox random(seed, "chaos", "slow worker");
  const ChaosRoad road = kRoads[random.Below(kRoads.size(), 0)];
  const uint32_t keep = random.Below(2, 1) == 0 ? 2 : kKeepAll;
  v1::JobSpec job = LinkJob(road, keep);
  job.set_replace_slow(true);
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(job));
  ChaosOutcome outcome;
  outcome.what = RoadName(road);
  CommittedFiles committed(storage_, keep);
  std::unique_ptr<SlowedWorker> slowed;
  std::string name;
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    MUSTER_RETURN_IF_ERROR(Look(status, committed));
    if (slowed != nullptr) {
      slowed->Turn();
      if (status.left_workers().empty()) return true;
      const v1::LeftWorker& left = status.left_workers(0);
      absl::StrAppend(&outcome.what, "; the job left ", left.worker_id(), " at step ",
                      status.progress().step(), ", which ", left.reason());
      if (left.worker_id() == name) ++outcome.left;
      slowed.reset();
      return true;
    }
    if (outcome.slowed > 0 || status.progress().step() == 0) return true;
    const std::optional<ClusterProcess> worker = BusyWorker(random, 4);
    if (!worker.has_value()) return true;
    name = worker->daemon;
    slowed = std::make_unique<SlowedWorker>(worker->pid);
    ++outcome.slowed;
    absl::StrAppend(&outcome.what, ", ", name, " was slow from step ", status.progress().step());
    return true;
  };
  const absl::Status ended = cluster_.Await(id, turn, [&outcome] { return outcome.what; });
  slowed.reset();
  if (outcome.slowed == 0 && ended.ok()) {
    return absl::UnavailableError(absl::StrCat("job ", id, " ended before a worker was slowed"));
  }
  // Without deltas the job keeps so many in the end.
  if (ended.ok() && road == ChaosRoad::kZeroAllReduce) {
    MUSTER_RETURN_IF_ERROR(AwaitRetired(id, keep));
  }
  MUSTER_RETURN_IF_ERROR(CheckFiles(id, ended, committed, outcome));
  MUSTER_RETURN_IF_ERROR(CheckWeights(id, road, committed, outcome));
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
  return outcome;
}

absl::optional<uint64_t> LinkRounds::AwaitNextCommit(const std::string& job_id,
                                                     uint64_t clock) const {
  const absl::Time until = absl::Now() + kCommitPatience;
  const auto is_there = [&](uint64_t at) {
    return ReadManifest(storage_, CheckpointFolder(cluster_.folder().CheckpointRoot(), job_id, at))
        .ok();
  };
  while (is_there(clock)) ++clock;
  while (absl::Now() < until) {
    if (is_there(clock)) return clock;
    absl::SleepFor(kCommitPoll);
  }
  return absl::nullopt;
}

absl::StatusOr<ChaosOutcome> LinkRounds::RunF16RewritesCheckpoint(uint64_t seed) {
  MUSTER_RETURN_IF_ERROR(StartCluster());
  const std::string text_file = cluster_.folder().path() + "/text.txt";
  std::ofstream(text_file) << ChaosText();
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster_.Submit(F16Job(text_file)));
  const Philox random(seed, "chaos", "f16");
  CommittedFiles committed(storage_, kKeepAll);
  ChaosOutcome outcome;
  uint64_t resume_at = 1;
  std::vector<std::string> killed;
  const auto turn = [&](const v1::JobStatus& status) -> absl::StatusOr<bool> {
    MUSTER_RETURN_IF_ERROR(Look(status, committed));
    if (status.checkpoint_clock() < resume_at) return true;
    if (outcome.kills == kF16Kills) return false;
    const std::string worker =
        absl::StrCat("worker-", random.Below(options_.workers, outcome.kills));
    for (const ClusterProcess& process : ClusterProcesses(cluster_.supervisor())) {
      if (process.daemon != worker || !process.is_task) continue;
      const absl::optional<uint64_t> clock = AwaitNextCommit(id, status.checkpoint_clock());
      if (!clock || kill(process.pid, SIGKILL) != 0) break;
      ++outcome.kills;
      killed.push_back(absl::StrCat(worker, "'s at the commit of clock ", *clock));
      resume_at = *clock + kStepsBetweenKills;
      break;
    }
    return true;
  };
  const auto describe = [&killed] {
    return absl::StrCat("F16, killed tasks: ", absl::StrJoin(killed, ", "));
  };
  const absl::Status ended = cluster_.Await(id, turn, describe);
  outcome.what = describe();
  if (ended.ok()) {
    v1::JobStatus status;
    MUSTER_RETURN_IF_ERROR(cluster_.jobs().Cancel(id, "the round of chaos is over", status));
  }
  MUSTER_RETURN_IF_ERROR(CheckFiles(id, ended, committed, outcome));
  MUSTER_RETURN_IF_ERROR(cluster_.jobs().Delete(id));
  return outcome;
}

}  // namespace muster
