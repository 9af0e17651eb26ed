#include "server/coordinator/simulation/simulated_cluster.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/recovery_plan.h"
#include "common/program/program_proof.h"
#include "common/rpc/membership/protocol.h"
#include "gtest/gtest.h"
#include "proto/metrics.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);

bool SameTask(const v1::TaskReport& report, const v1::TaskOrder& order) {
  return report.job_id() == order.job_id() && report.generation() == order.generation() &&
         report.slot() == order.slot() && report.incarnation() == order.incarnation();
}

}  // namespace

SimulatedCluster::SimulatedCluster(CoordinatorOptions options, CheckpointArchive* lent)
    : options_(std::move(options)), lent_(lent) {
  RestartCoordinator();
}

void SimulatedCluster::RestartCoordinator() {
  if (coordinator_ != nullptr) {
    logic_.RunAll();
    planning_.RunAll();
    disk_.RunAll();
    logic_.RunAll();
    coordinator_->Shutdown();
  }
  coordinator_.reset();
  CheckpointArchive& used = lent_ != nullptr ? *lent_ : archive;
  auto created = Coordinator::Create(store, used, clock, logic_, disk_, planning_, options_);
  ASSERT_TRUE(created.ok()) << created.status();
  coordinator_ = *std::move(created);
}

void SimulatedCluster::Run() {
  coordinator_->Settle().IgnoreError();
  while (!logic_.idle() || !disk_.idle() || !planning_.idle()) {
    planning_.RunAll();
    disk_.RunAll();
    logic_.RunAll();
    coordinator_->Settle().IgnoreError();
  }
}

void SimulatedCluster::Pass(absl::Duration time) {
  for (; time > absl::ZeroDuration(); time -= kTick) {
    clock.Advance(std::min(time, kTick));
    coordinator_->Tick().IgnoreError();
    Run();
    BeatAll();
  }
}

SimulatedCluster::Daemon& SimulatedCluster::Add(Daemon daemon, uint64_t memory_bytes) {
  daemon.address = absl::StrCat(daemon.id, ":1");
  daemon.nonce = next_nonce_++;
  memory_[daemon.id] = memory_bytes;
  Daemon& added = daemons_[daemon.id] = std::move(daemon);
  Register(added);
  BeatAll();
  return added;
}

SimulatedCluster::Daemon& SimulatedCluster::AddWorker(const std::string& id, uint32_t slots,
                                                      uint64_t memory_bytes,
                                                      std::vector<uint64_t> devices,
                                                      bool multiplies_bf16) {
  return Add({.kind = v1::WORKER,
              .id = id,
              .slots = slots,
              .devices = std::move(devices),
              .multiplies_bf16 = multiplies_bf16},
             memory_bytes);
}

SimulatedCluster::Daemon& SimulatedCluster::AddServer(const std::string& id,
                                                      uint64_t memory_bytes) {
  return Add({.kind = v1::SERVER, .id = id}, memory_bytes);
}

void SimulatedCluster::Register(Daemon& daemon) {
  if (IsCut(daemon.id)) return;
  v1::RegisterDaemonRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_kind(daemon.kind);
  request.set_id(daemon.id);
  request.set_process_nonce(daemon.nonce);
  request.set_address(daemon.address);
  request.set_slots(daemon.slots);
  request.set_processors(kProcessorsOfASlot * daemon.slots);
  for (const uint64_t memory_bytes : daemon.devices) {
    v1::Device& device = *request.add_devices();
    device.set_name("a device");
    device.set_memory_bytes(memory_bytes);
  }
  request.set_multiplies_bf16(daemon.multiplies_bf16);
  request.set_allows_programs(daemon.allows_programs);
  request.set_memory_bytes(memory_[daemon.id]);
  Answer<v1::RegisterDaemonReply> answer;
  coordinator_->daemons().Register(request, answer.call());
  Run();
  if (answer.status().ok()) daemon.incarnation = answer.get()->incarnation();
  daemon.seen_version = 0;
}

void SimulatedCluster::Kill(const std::string& id) { daemons_.erase(id); }

void SimulatedCluster::RestartDaemon(const std::string& id) {
  const Daemon old = daemons_.at(id);
  daemons_[id] = {.kind = old.kind,
                  .id = id,
                  .address = old.address,
                  .nonce = next_nonce_++,
                  .slots = old.slots,
                  .devices = old.devices,
                  .multiplies_bf16 = old.multiplies_bf16,
                  .allows_programs = old.allows_programs};
  Register(daemons_[id]);
  BeatAll();
}

void SimulatedCluster::Beat(const std::string& id) {
  const auto it = daemons_.find(id);
  if (it == daemons_.end() || IsCut(id)) return;
  Daemon& daemon = it->second;
  v1::HeartbeatRequest request;
  request.set_id(daemon.id);
  request.set_incarnation(daemon.incarnation);
  request.set_seen_orders_version(daemon.seen_version);
  if (daemon.leaves) request.set_leaves_within_ms(30000);
  for (const v1::TaskReport& report : daemon.reports) *request.add_tasks() = report;
  for (const v1::MoveReport& report : daemon.moves) *request.add_moves() = report;
  for (const v1::PartitionLoad& load : daemon.loads) *request.add_partition_loads() = load;
  for (const v1::DropOrder& drop : daemon.orders.drops()) {
    if (daemon.cannot_drop) continue;
    *request.add_drops() = drop;
    daemon.held_jobs.erase(drop.job_id());
  }
  for (const std::string& job_id : daemon.held_jobs) request.add_held_jobs(job_id);
  Answer<v1::HeartbeatReply> answer;
  coordinator_->daemons().Heartbeat(request, answer.call());
  Run();
  ASSERT_TRUE(answer.came());
  if (answer.status().code() == absl::StatusCode::kAborted) {
    // The daemon is fenced, and its tasks end with it.
    daemon.reports.clear();
    daemon.orders.Clear();
    Register(daemon);
    return;
  }
  if (!answer.get().ok()) return;
  daemon.orders = *answer.get();
  daemon.seen_version = daemon.orders.orders_version();
  for (const v1::DropOrder& drop : daemon.orders.drops()) daemon.dropped.push_back(drop.job_id());
  // Tasks that are no longer ordered stop and are forgotten; new ones start.
  std::vector<v1::TaskReport> reports;
  for (const v1::TaskOrder& order : daemon.orders.tasks()) {
    const auto known =
        std::find_if(daemon.reports.begin(), daemon.reports.end(),
                     [&](const v1::TaskReport& report) { return SameTask(report, order); });
    if (known != daemon.reports.end()) {
      reports.push_back(*known);
      continue;
    }
    v1::TaskReport& report = reports.emplace_back();
    report.set_job_id(order.job_id());
    report.set_generation(order.generation());
    report.set_slot(order.slot());
    report.set_incarnation(order.incarnation());
    report.set_state(v1::TaskReport::RUNNING);
  }
  daemon.reports = std::move(reports);
}

void SimulatedCluster::BeatAll() {
  std::vector<std::string> ids;
  for (const auto& [id, daemon] : daemons_) ids.push_back(id);
  // Twice, so that changes from one daemon's report reach the others.
  for (int round = 0; round < 2; ++round) {
    for (const std::string& id : ids) Beat(id);
  }
}

absl::StatusOr<std::string> SimulatedCluster::Submit(const v1::JobSpec& spec,
                                                     const std::string& request_id) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id.empty() ? absl::StrCat("request-", next_request_++)
                                            : request_id);
  if (RunsProgram(spec)) request.set_program_proof(ProofOfSubmit(request, options_.program_token));
  Answer<v1::SubmitJobReply> reply;
  coordinator_->submits().Submit(request, reply.call());
  Run();
  BeatAll();
  if (!reply.status().ok()) return reply.status();
  return reply.get()->job_id();
}

v1::JobStatus SimulatedCluster::Status(const std::string& job_id) {
  const auto status = coordinator_->jobs().Get(job_id);
  return status.ok() ? *status : v1::JobStatus();
}

bool SimulatedCluster::HasEvent(const std::string& job_id, const std::string& text) {
  const auto reply = coordinator_->jobs().Events(job_id);
  if (!reply.ok()) return false;
  return std::any_of(
      reply->events().begin(), reply->events().end(),
      [&](const v1::JobEvent& event) { return absl::StrContains(event.text(), text); });
}

const v1::TaskOrder* SimulatedCluster::Order(const std::string& job_id, uint32_t slot) {
  for (const auto& [id, daemon] : daemons_) {
    for (const v1::TaskOrder& order : daemon.orders.tasks()) {
      if (order.job_id() == job_id && order.slot() == slot) return &order;
    }
  }
  return nullptr;
}

std::vector<v1::TaskOrder> SimulatedCluster::Orders(const std::string& job_id) {
  std::vector<v1::TaskOrder> orders;
  for (const auto& [id, daemon] : daemons_) {
    for (const v1::TaskOrder& order : daemon.orders.tasks()) {
      if (order.job_id() == job_id) orders.push_back(order);
    }
  }
  std::sort(orders.begin(), orders.end(),
            [](const v1::TaskOrder& a, const v1::TaskOrder& b) { return a.slot() < b.slot(); });
  return orders;
}

Answer<v1::RendezvousReply> SimulatedCluster::Rendezvous(const v1::TaskOrder& order,
                                                         uint64_t total_steps,
                                                         uint64_t data_fingerprint) {
  v1::RendezvousRequest request;
  *request.mutable_task() = Identity(order);
  if (!order.spec().model().has_program()) {
    request.set_total_steps(total_steps);
    request.set_data_fingerprint(data_fingerprint);
    request.set_training_examples(80);
    request.set_held_out_examples(20);
  }
  request.set_endpoint(EndpointOf(order));
  Rank& known = rank(order);
  known.worker_id = order.worker_id();
  request.set_round(known.round);
  if (known.clock.has_value()) request.set_replica_clock(*known.clock);
  if (DividesAnew(order.spec())) {
    request.set_shards(known.shards);
    request.set_shard(known.shard);
  }
  request.set_has_sums(known.clock.has_value() &&
                       RanksDivideState(order.spec(), order.spec().workers()));
  for (const uint32_t shard : known.copies) {
    v1::KeptCopy& copy = *request.add_copies();
    copy.set_shard(shard);
    copy.set_clock(*known.clock);
    copy.set_has_sums(true);
  }
  request.set_late(known.late);
  request.set_failure(known.failure);
  if (order.takes_over_generation() > 0) {
    request.set_taken_over_clock(known.taken_over_clock.value_or(0));
  }
  Answer<v1::RendezvousReply> answer;
  const Call<v1::RendezvousReply> inner = answer.call();
  Call<v1::RendezvousReply> call{
      .done =
          [this, inner, order, named = known.round](absl::StatusOr<v1::RendezvousReply> reply) {
            if (reply.ok() && reply->round() > 0) Meet(order, named, *reply);
            inner.done(std::move(reply));
          },
      .cancelled = inner.cancelled};
  coordinator_->tasks().Rendezvous(request, std::move(call));
  Run();
  return answer;
}

std::string SimulatedCluster::EndpointOf(const v1::TaskOrder& order) {
  return absl::StrCat(order.job_id(), "/", order.generation(), "/", order.slot(), "/",
                      order.incarnation());
}

void SimulatedCluster::Meet(const v1::TaskOrder& order, uint64_t named,
                            const v1::RendezvousReply& reply) {
  if (on_round != nullptr) on_round(order, named, reply);
  if (answers_are_lost) return;
  std::optional<uint64_t> clock = order.start_clock();
  uint32_t own = 0;
  std::vector<uint64_t> daemons;
  for (int i = 0; i < reply.peers_size(); ++i) {
    const v1::CollectivePeer& peer = reply.peers(i);
    if (peer.slot() == order.slot()) own = i;
    daemons.push_back(std::hash<std::string>()(ranks_[peer.endpoint()].worker_id));
    if (!reply.has_source_slot() || peer.slot() != reply.source_slot()) continue;
    // The clock when the round opened: the source may train on before the others are told.
    clock = source_clocks_
                .try_emplace(absl::StrCat(peer.endpoint(), "#", reply.round()),
                             ranks_[peer.endpoint()].clock)
                .first->second;
  }
  const auto peers = static_cast<uint32_t>(reply.peers_size());
  std::vector<uint32_t> copies;
  if (order.spec().parallelism().zero().redundancy() > 0) {
    const auto group =
        static_cast<int>(DividesAnew(order.spec()) ? SizeAlong(kLayerAxes, order.spec()) : 1);
    const std::vector<int> keepers = Keepers(daemons, group);
    for (uint32_t owner = 0; owner < peers; ++owner) {
      if (keepers[owner] == static_cast<int>(own)) copies.push_back(owner);
    }
  }
  if (!reply.leaving_slots().empty()) {
    std::vector<int> leaving;
    for (int i = 0; i < reply.peers_size(); ++i) {
      const auto& slots = reply.leaving_slots();
      if (std::find(slots.begin(), slots.end(), reply.peers(i).slot()) != slots.end()) {
        leaving.push_back(i);
      }
    }
    for (const ShardTransfer& transfer : PlanHandOver(MeshOf(order.spec(), peers), leaving)) {
      if (transfer.to == static_cast<int>(own)) copies.push_back(transfer.shard);
    }
  }
  rank(order) = {.round = reply.round(),
                 .clock = clock,
                 .shard = own,
                 .shards = peers,
                 .copies = std::move(copies),
                 .worker_id = order.worker_id()};
}

absl::Status SimulatedCluster::Progress(const v1::TaskOrder& order, uint64_t clock,
                                        std::optional<double> told) {
  v1::ReportProgressRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_examples(4);
  request.set_steps(1);
  request.set_loss_sum(2);
  if (clock > 0) {
    v1::ReportedSeries& losses = *request.add_series();
    losses.set_name("train/loss");
    losses.set_weight(4);
    v1::SeriesPoint& loss = *losses.add_points();
    loss.set_first_step(clock);
    loss.set_last_step(clock);
    loss.set_values(1);
    loss.set_last(told.value_or(static_cast<double>(order.generation())));
  }
  const auto reply = coordinator_->tasks().ReportProgress(request);
  if (reply.ok()) {
    progress_reply = *reply;
    if (rank(order).clock.has_value()) rank(order).clock = clock;
  }
  Run();
  return reply.status();
}

absl::Status SimulatedCluster::Diverge(const v1::TaskOrder& order, uint64_t clock) {
  v1::ReportProgressRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_steps(1);
  request.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  request.set_loss_weight(1);
  const absl::Status status = coordinator_->tasks().ReportProgress(request).status();
  Run();
  return status;
}

absl::Status SimulatedCluster::TellLongCall(const v1::TaskOrder& order, const std::string& label) {
  v1::ReportProgressRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(3);
  v1::CollectiveRecord& call = *request.mutable_call_under_way();
  call.set_operation("all_reduce");
  call.set_label(label);
  call.set_sequence(12);
  call.set_group("world");
  call.set_duration_us(-1);
  const absl::Status status = coordinator_->tasks().ReportProgress(request).status();
  Run();
  return status;
}

absl::Status SimulatedCluster::TellWait(const v1::TaskOrder& order, const std::string& waits_for) {
  v1::ReportProgressRequest request;
  *request.mutable_task() = Identity(order);
  request.set_waits_for(waits_for);
  const absl::Status status = coordinator_->tasks().ReportProgress(request).status();
  Run();
  return status;
}

Answer<v1::ReportEvaluationReply> SimulatedCluster::Evaluate(const v1::TaskOrder& order,
                                                             uint64_t clock, uint64_t correct) {
  v1::ReportEvaluationRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_metric("accuracy");
  request.set_correct(correct);
  request.set_examples(10);
  request.set_loss_sum(3);
  Answer<v1::ReportEvaluationReply> answer;
  coordinator_->tasks().ReportEvaluation(request, answer.call());
  Run();
  return answer;
}

Answer<v1::AdjustReply> SimulatedCluster::Adjust(const v1::TaskOrder& order, uint64_t clock,
                                                 v1::AdjustRequest request) {
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  Answer<v1::AdjustReply> answer;
  coordinator_->tasks().Adjust(request, answer.call());
  Run();
  return answer;
}

Answer<v1::VerifyStepReply> SimulatedCluster::Verify(
    const v1::TaskOrder& order, uint64_t clock, uint32_t attempt,
    const std::vector<std::pair<uint32_t, uint64_t>>& shares, const std::string& processor) {
  v1::VerifyStepRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_attempt(attempt);
  request.set_processor(processor);
  for (const auto& [data_rank, gradients] : shares) {
    v1::ShareFingerprint& share = *request.add_shares();
    share.set_data_rank(data_rank);
    share.set_gradients(gradients);
  }
  Answer<v1::VerifyStepReply> answer;
  coordinator_->tasks().VerifyStep(request, answer.call());
  Run();
  return answer;
}

v1::TaskIdentity SimulatedCluster::Identity(const v1::TaskOrder& order) {
  v1::TaskIdentity task;
  task.set_job_id(order.job_id());
  task.set_generation(order.generation());
  task.set_slot(order.slot());
  task.set_incarnation(order.incarnation());
  return task;
}

Answer<v1::CommitCheckpointReply> SimulatedCluster::Checkpoint(
    const v1::TaskOrder& order, uint64_t clock, const std::string& data_preparation) {
  v1::CommitCheckpointRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_data_preparation(data_preparation);
  Answer<v1::CommitCheckpointReply> answer;
  coordinator_->tasks().CommitCheckpoint(request, answer.call());
  Run();
  return answer;
}

Answer<v1::CommitCheckpointReply> SimulatedCluster::CommitPart(
    const v1::TaskOrder& order, uint64_t clock, const std::vector<std::string>& names,
    const std::string& schema, v1::CommitCheckpointRequest::ProgramPart part) {
  v1::CommitCheckpointRequest request;
  *request.mutable_task() = Identity(order);
  request.set_clock(clock);
  request.set_schema(schema);
  request.set_program_part(part);
  for (const std::string& name : names) {
    v1::CutFile& file = *request.add_files();
    file.set_name(name);
    file.set_path(absl::StrCat("partition-", order.slot(), "-", name));
  }
  Answer<v1::CommitCheckpointReply> answer;
  coordinator_->tasks().CommitCheckpoint(request, answer.call());
  Run();
  return answer;
}

Answer<v1::ListCollectivesReply> SimulatedCluster::ListCollectives(const std::string& job_id) {
  Answer<v1::ListCollectivesReply> answer;
  coordinator_->jobs().ListCollectives(job_id, answer.call());
  Run();
  return answer;
}

absl::Status SimulatedCluster::TellCollectives(const v1::TaskOrder& order,
                                               const std::vector<std::string>& labels) {
  v1::ReportCollectivesRequest request;
  *request.mutable_task() = Identity(order);
  for (const std::string& label : labels) request.add_calls()->set_label(label);
  const absl::Status status = coordinator_->tasks().ReportCollectives(request).status();
  Run();
  return status;
}

Answer<v1::ShardMap> SimulatedCluster::GetShardMap(const v1::TaskOrder& order, uint64_t min_version,
                                                   absl::Duration wait) {
  v1::GetShardMapRequest request;
  *request.mutable_task() = Identity(order);
  request.set_min_version(min_version);
  request.set_wait_ms(absl::ToInt64Milliseconds(wait));
  Answer<v1::ShardMap> answer;
  coordinator_->tasks().GetShardMap(request, answer.call());
  Run();
  return answer;
}

SimulatedCluster::Daemon* SimulatedCluster::HolderOf(const v1::TaskOrder& order) {
  for (auto& [id, daemon] : daemons_) {
    for (const v1::TaskReport& report : daemon.reports) {
      if (SameTask(report, order)) return &daemon;
    }
  }
  return nullptr;
}

void SimulatedCluster::Report(const v1::TaskOrder& order, v1::TaskReport::State state, int code,
                              const std::string& message, v1::TaskReport::Loss loss) {
  Daemon* holder = HolderOf(order);
  if (holder == nullptr) return;
  for (v1::TaskReport& report : holder->reports) {
    if (!SameTask(report, order)) continue;
    report.set_state(state);
    report.set_code(code);
    report.set_message(message);
    report.set_loss(loss);
  }
  BeatAll();
}

void SimulatedCluster::End(const v1::TaskOrder& order, int code, const std::string& message,
                           v1::TaskReport::Loss loss) {
  // The caller's order may be the one that the heartbeat replaces.
  const v1::TaskOrder copy = order;
  Report(copy, v1::TaskReport::ENDED, code, message, loss);
}

void SimulatedCluster::Die(const v1::TaskOrder& order) {
  const v1::TaskOrder copy = order;
  Report(copy, v1::TaskReport::DIED, 0, "signal 9", v1::TaskReport::LOSS_UNSPECIFIED);
}

void SimulatedCluster::MeetAll(const std::string& job_id) {
  for (const v1::TaskOrder& order : Orders(job_id)) Rendezvous(order);
}

void SimulatedCluster::ProgressAll(const std::string& job_id, uint64_t clock) {
  for (const v1::TaskOrder& order : Orders(job_id)) Progress(order, clock).IgnoreError();
}

void SimulatedCluster::EvaluateAll(const std::string& job_id, uint64_t clock, uint64_t correct) {
  for (const v1::TaskOrder& order : Orders(job_id)) Evaluate(order, clock, correct);
}

absl::StatusOr<v1::AdjustReply> SimulatedCluster::AdjustAll(const std::string& job_id,
                                                            uint64_t clock) {
  Answer<v1::AdjustReply> answer;
  for (const v1::TaskOrder& order : Orders(job_id)) answer = Adjust(order, clock);
  return answer.came() ? answer.get() : answer.status();
}

void SimulatedCluster::EndAll(const std::string& job_id) {
  for (const v1::TaskOrder& order : Orders(job_id)) End(order);
}

void SimulatedCluster::Finish(const std::string& job_id, uint64_t total_steps) {
  BeatAll();
  // Tasks that train in rounds stay in theirs.
  const bool in_round = TrainsInRounds(Status(job_id).spec()) && State(job_id) == v1::RUNNING;
  for (const v1::TaskOrder& order : Orders(job_id)) {
    if (!in_round) Rendezvous(order, total_steps);
  }
  ProgressAll(job_id, total_steps);
  // Only the one who speaks for all is heard.
  for (const v1::TaskOrder& order : Orders(job_id)) Checkpoint(order, total_steps);
  EvaluateAll(job_id, total_steps);
  EndAll(job_id);
}

}  // namespace muster
