#include "server/shard/history/history_world.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/delta_base.h"
#include "common/checkpoint/manifest.h"
#include "common/partition/cut_order.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

// Clocks from one cut to the next.
constexpr uint64_t kCutEvery = 3;
constexpr int kMostEvents = 400000;
// Most failures of one disk at a time.
constexpr int kMostDiskFailures = 3;
constexpr std::array<const char*, 5> kCrashPoints = {"appended", "synced", "applied", "image",
                                                     "evicted"};
constexpr std::array<const char*, 4> kScratchCrashPoints = {"applied", "cut_taken", "cut_file",
                                                            "cut_written"};

}  // namespace

HistoryWorld::HistoryWorld(Options options)
    : options_(options), workload_(options.workload), random_(options.seed) {
  // Half of the time an image is written whenever it can be. Where values of the clock before are
  // of use, only cuts may move the image past it.
  log_bytes_ = options_.workload.keeps_previous() ? 1 << 30 : Below(2) == 0 ? 0 : 500;
  for (uint32_t i = 0; i < options_.servers; ++i) {
    servers_.push_back(std::make_unique<Server>());
    for (uint32_t p = i; p < options_.workload.partitions; p += options_.servers) {
      servers_[i]->partitions.push_back(p);
    }
    StartServer(i);
  }
  slots_.resize(options_.workload.slots);
  reached_.resize(slots_.size());
  for (Slot& slot : slots_) {
    slot.unanswered.resize(options_.servers);
    slot.wire.resize(options_.servers);
    slot.stream.resize(options_.servers);
    slot.broken.resize(options_.servers);
  }
  for (int& left : faults_left_) left = options_.faults;
}

absl::Status HistoryWorld::Fail(const std::string& what) const {
  return absl::InternalError(absl::StrCat("seed ", options_.seed, ": ", what));
}

// --- Servers.

void HistoryWorld::StartServer(uint32_t server) {
  Server& it = *servers_[server];
  it.crashed = false;
  it.crash_after = 0;
  ShardEngine::Options options;
  options.store = it.store;
  options.log_dir = "/logs";
  options.log_file_system = &it.files;
  // Logs that write at once and such as write with their sync.
  it.files.set_keeps_space(options_.seed % 2 == 1);
  it.files.set_fault([this, &it](FakeLogFileSystem::Operation operation, const std::string&) {
    const bool fails = operation == FakeLogFileSystem::Operation::kWrite ||
                       operation == FakeLogFileSystem::Operation::kSync;
    if (!fails || it.disk_failures == 0) return absl::OkStatus();
    --it.disk_failures;
    ++tally_.disk_failures;
    return absl::UnavailableError("the disk fails");
  });
  options.log_segment_bytes = 8192;
  options.log_bytes = log_bytes_;
  options.checkpoint_storage = &storage_;
  options.executor = &it.executor;
  options.file_executor = &it.file_executor;
  options.crash_point = [this, server](absl::string_view point) {
    return PassCrashPoint(server, point);
  };
  it.engine = *ShardEngine::Create(std::move(options));
}

bool HistoryWorld::PassCrashPoint(uint32_t server, absl::string_view point) {
  Server& it = *servers_[server];
  if (it.crash_after == 0 || point != it.crash_point || --it.crash_after > 0) return false;
  it.crashed = true;
  return true;
}

absl::Status HistoryWorld::RunExecutor(uint32_t server) {
  servers_[server]->executor.RunAll();
  const v1::GetServerStatsReply stats = servers_[server]->engine->Stats();
  for (const v1::TableStats& table : stats.tables()) {
    tally_.most_rows_on_disk = std::max(tally_.most_rows_on_disk, table.rows_on_disk());
  }
  return servers_[server]->crashed ? RestartServer(server) : absl::OkStatus();
}

// Without a crash on the way.
void HistoryWorld::RunQuietly(uint32_t server) {
  Server& it = *servers_[server];
  const int crash_after = std::exchange(it.crash_after, 0);
  while (!it.executor.idle() || !it.file_executor.idle()) {
    it.executor.RunAll();
    it.file_executor.RunAll();
  }
  it.crash_after = crash_after;
}

absl::Status HistoryWorld::RestartServer(uint32_t server) {
  ++tally_.server_crashes;
  Server& it = *servers_[server];
  while (!it.executor.idle() || !it.file_executor.idle()) {
    it.executor.RunAll();
    it.file_executor.RunAll();
  }
  it.engine.reset();
  // Half of the time the whole machine goes down, and what was not synced with it.
  const bool machine = Below(2) == 0;
  if (machine) it.files.Crash(random_());
  it.store->Crash(machine ? FakeStore::Loss::kMachine : FakeStore::Loss::kProcess, random_());
  StartServer(server);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) BreakStream(slot, server);
  return options_.workload.durable ? absl::OkStatus() : Rollback();
}

absl::Status HistoryWorld::Rollback() {
  ++tally_.rollbacks;
  ++generation_;
  start_clock_ = checkpoint_clock_;
  cuts_.clear();
  acknowledged_closed_.clear();
  acknowledged_incarnation_.clear();
  for (auto& server : servers_) server->crash_after = 0;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    ++slots_[slot].incarnation;
    reached_[slot] = start_clock_;
    MUSTER_RETURN_IF_ERROR(StartTask(slot));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::OpenTablesReply> HistoryWorld::OpenTables(uint32_t server, uint32_t slot) {
  for (int tries = kMostDiskFailures + 1;;) {
    Server& it = *servers_[server];
    RunQuietly(server);
    const uint64_t incarnation = slots_[slot].incarnation;
    v1::OpenTablesRequest request = workload_.OpenRequest(generation_, it.partitions);
    request.set_slot(slot);
    request.set_incarnation(incarnation);
    request.set_start_clock(start_clock_);
    if (start_clock_ > 0) request.set_restore_uri(checkpoint_folder_);
    request.set_expect_state(options_.workload.durable && it.opened_generation == generation_);
    absl::StatusOr<v1::OpenTablesReply> reply = it.engine->OpenTables(request);
    if (it.crashed) {
      MUSTER_RETURN_IF_ERROR(RestartServer(server));
      continue;
    }
    // As often as the disk fails, or what it has failed for is read back.
    if (absl::IsUnavailable(reply.status()) && tries-- > 0) continue;
    if (!reply.ok()) return Fail(absl::StrCat("OpenTables: ", reply.status().ToString()));
    it.opened_generation = generation_;
    for (uint32_t partition : it.partitions) {
      uint64_t& known = acknowledged_incarnation_[{partition, slot}];
      known = std::max(known, incarnation);
    }
    MUSTER_RETURN_IF_ERROR(CheckClosed(*reply));
    return reply;
  }
}

// --- Tasks.

void HistoryWorld::Send(uint32_t slot, v1::ExchangeRequest request, Payload payload, bool aside) {
  const uint32_t server = request.partition() % options_.servers;
  request.set_request_id(next_request_id_++);
  request.set_generation(generation_);
  request.set_incarnation(slots_[slot].incarnation);
  Message message{std::move(request), std::move(payload), aside};
  slots_[slot].unanswered[server].push_back(message);
  slots_[slot].wire[server].push_back(std::move(message));
}

void HistoryWorld::StartPhase(uint32_t slot, Phase phase) {
  Slot& it = slots_[slot];
  it.phase = phase;
  if (phase == Phase::kCut && !CutsAt(it.clock)) return StartPhase(slot, Phase::kPull);
  const bool at_end = it.clock == options_.workload.clocks;
  if (slot == 0 && writing_.has_value() && (phase == Phase::kCut || at_end)) {
    it.phase = Phase::kAwaitFiles;
    return;
  }
  if (phase == Phase::kPull && at_end) {
    it.phase = Phase::kDone;
    return;
  }
  reached_[slot] = std::max(reached_[slot], it.clock + (phase == Phase::kPush ? 1 : 0));
  for (uint32_t p = 0; p < options_.workload.partitions; ++p) {
    if (phase == Phase::kCut) {
      v1::ExchangeRequest cut = TestCut(slot, it.clock);
      cut.set_partition(p);
      Send(slot, cut, EncodeCutOrder({.step = CutOrder::Step::kTake, .base = {}}));
      continue;
    }
    for (auto& [request, payload] : phase == Phase::kPull
                                        ? workload_.Pulls(slot, it.clock, p)
                                        : workload_.Contribution(slot, it.clock, p, random_())) {
      Send(slot, request, payload);
    }
  }
}

bool HistoryWorld::CutsAt(uint64_t clock) const {
  return clock > start_clock_ && (clock % kCutEvery == 0 || clock == options_.workload.clocks);
}

void HistoryWorld::WriteCut(uint64_t clock) {
  writing_ = clock;
  // Now and then all is taken anew.
  const std::optional<uint64_t> base = Below(4) == 0 ? std::nullopt : base_;
  for (uint32_t p = 0; p < options_.workload.partitions; ++p) {
    v1::ExchangeRequest cut = TestCut(0, clock);
    cut.set_partition(p);
    CutOrder order{.step = CutOrder::Step::kWrite, .base = {}};
    if (base.has_value()) order.base = *base;
    Send(0, cut, EncodeCutOrder(order), /*aside=*/true);
  }
}

absl::Status HistoryWorld::NextPhase(uint32_t slot) {
  Slot& it = slots_[slot];
  switch (it.phase) {
    case Phase::kAwaitFiles:
      StartPhase(slot, CutsAt(it.clock) && writing_done_ != it.clock ? Phase::kCut : Phase::kPull);
      break;
    case Phase::kCut:
      if (slot == 0) WriteCut(it.clock);
      StartPhase(slot, Phase::kPull);
      break;
    case Phase::kPull:
      StartPhase(slot, Phase::kPush);
      break;
    case Phase::kPush:
      ++it.clock;
      StartPhase(slot, Phase::kCut);
      break;
    case Phase::kDone:
      break;
  }
  return absl::OkStatus();
}

void HistoryWorld::BreakStream(uint32_t slot, uint32_t server) {
  Slot& it = slots_[slot];
  for (Message& message : it.wire[server]) {
    if (Below(3) == 0) ghosts_.emplace_back(server, std::move(message));
  }
  it.wire[server].clear();
  it.stream[server] = next_stream_++;
  it.broken[server] = true;
}

absl::Status HistoryWorld::Reconnect(uint32_t slot, uint32_t server) {
  const uint64_t generation = generation_;
  BreakStream(slot, server);
  MUSTER_RETURN_IF_ERROR(OpenTables(server, slot).status());
  // A rollback on the way has started the task anew.
  if (generation != generation_) return absl::OkStatus();
  slots_[slot].wire[server] = slots_[slot].unanswered[server];
  slots_[slot].broken[server] = false;
  return absl::OkStatus();
}

absl::Status HistoryWorld::StartTask(uint32_t slot) {
  const uint64_t generation = generation_;
  if (slot == 0) {
    writing_.reset();
    writing_done_.reset();
    base_.reset();
  }
  uint64_t clock = options_.workload.clocks;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    BreakStream(slot, server);
    slots_[slot].unanswered[server].clear();
    MUSTER_ASSIGN_OR_RETURN(const v1::OpenTablesReply reply, OpenTables(server, slot));
    if (generation != generation_) return absl::OkStatus();
    for (const v1::PartitionClocks& clocks : reply.partitions()) {
      clock = std::min(clock, clocks.closed(slot));
    }
    slots_[slot].broken[server] = false;
  }
  slots_[slot].clock = clock;
  StartPhase(slot, Phase::kCut);
  return absl::OkStatus();
}

absl::Status HistoryWorld::CommitCheckpoint(uint64_t clock) {
  base_.reset();
  for (uint32_t p = 0; p < options_.workload.partitions; ++p) {
    if (!cuts_.at({clock, p}).checkpoint_path().empty()) continue;
    ++tally_.cuts_lost;
    return absl::OkStatus();
  }
  base_ = clock;
  if (clock <= checkpoint_clock_) return absl::OkStatus();
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job");
  manifest.set_generation(generation_);
  manifest.set_clock(clock);
  *manifest.mutable_schema() = workload_.schema();
  for (uint32_t p = 0; p < options_.workload.partitions; ++p) {
    const v1::ExchangeReply& cut = cuts_.at({clock, p});
    v1::CheckpointFile& file = *manifest.add_files();
    file.set_partition(p);
    file.set_path(cut.checkpoint_path());
    file.set_bytes(cut.checkpoint_bytes());
    file.set_checksum(cut.checkpoint_checksum());
  }
  checkpoint_clock_ = clock;
  checkpoint_folder_ = CheckpointFolder("/checkpoints", "job", clock);
  // An earlier task of the slot may have had some files written as deltas.
  MUSTER_ASSIGN_OR_RETURN(const auto base, BaseOfFiles(storage_, checkpoint_folder_, manifest));
  if (base.has_value()) manifest.set_base_clock(*base);
  MUSTER_RETURN_IF_ERROR(WriteManifest(storage_, checkpoint_folder_, manifest));
  return CheckCheckpoint();
}

// --- The network.

void HistoryWorld::Deliver(uint32_t server, const Message& message, uint64_t stream) {
  ExchangeCall call;
  call.request = std::make_shared<v1::ExchangeRequest>(message.request);
  call.payload = message.payload;
  call.done = [this, server, stream, message](v1::ExchangeReply reply, Payload payload) {
    answers_.push_back(
        {message.request.slot(), server, stream, message.request, message.payload, reply, payload});
  };
  servers_[server]->engine->Execute(std::move(call));
}

absl::Status HistoryWorld::DeliverMessage() {
  std::vector<std::pair<uint32_t, uint32_t>> busy;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    for (uint32_t server = 0; server < options_.servers; ++server) {
      if (!slots_[slot].wire[server].empty()) busy.emplace_back(slot, server);
    }
  }
  if (busy.empty()) return absl::OkStatus();
  const auto [slot, server] = busy[Below(busy.size())];
  const Message message = std::move(slots_[slot].wire[server].front());
  slots_[slot].wire[server].pop_front();
  if (Below(10) == 0) ghosts_.emplace_back(server, message);
  Deliver(server, message, slots_[slot].stream[server]);
  return absl::OkStatus();
}

absl::Status HistoryWorld::DeliverGhost() {
  if (ghosts_.empty()) return absl::OkStatus();
  const size_t index = Below(ghosts_.size());
  std::swap(ghosts_[index], ghosts_.back());
  const auto [server, message] = std::move(ghosts_.back());
  ghosts_.pop_back();
  const v1::ExchangeRequest& request = message.request;
  const auto known = acknowledged_incarnation_.find({request.partition(), request.slot()});
  const bool fenced =
      request.generation() < generation_ ||
      (known != acknowledged_incarnation_.end() && request.incarnation() < known->second);
  ExchangeCall call;
  call.request = std::make_shared<v1::ExchangeRequest>(request);
  call.payload = message.payload;
  call.done = [this, request, fenced](v1::ExchangeReply reply, Payload) {
    const auto code = static_cast<absl::StatusCode>(reply.code());
    if (code == absl::StatusCode::kAborted) ++tally_.ghosts_fenced;
    // A server that is not open yet knows no job, and a partition that has failed nobody.
    if (fenced && code != absl::StatusCode::kAborted && code != absl::StatusCode::kNotFound &&
        code != absl::StatusCode::kUnavailable) {
      ghost_failure_ =
          Fail(absl::StrCat("a fenced message was let in: ", request.ShortDebugString()));
    }
  };
  servers_[server]->engine->Execute(std::move(call));
  return absl::OkStatus();
}

absl::Status HistoryWorld::DeliverAnswer() {
  if (answers_.empty()) return absl::OkStatus();
  const size_t index = Below(answers_.size());
  std::swap(answers_[index], answers_.back());
  const Answer answer = std::move(answers_.back());
  answers_.pop_back();
  Slot& slot = slots_[answer.slot];
  if (answer.stream != slot.stream[answer.server] || Below(30) == 0) return absl::OkStatus();
  switch (static_cast<absl::StatusCode>(answer.reply.code())) {
    case absl::StatusCode::kOk:
      break;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
      // The server came back without the job, or lost what came before this.
      slot.broken[answer.server] = true;
      return absl::OkStatus();
    default:
      return Fail(absl::StrCat("refused: ", answer.reply.ShortDebugString()));
  }
  MUSTER_RETURN_IF_ERROR(CheckAnswer(answer));
  std::deque<Message>& unanswered = slot.unanswered[answer.server];
  unanswered.erase(std::remove_if(unanswered.begin(), unanswered.end(),
                                  [&](const Message& message) {
                                    return message.request.request_id() ==
                                           answer.request.request_id();
                                  }),
                   unanswered.end());
  const auto answered = [&slot](bool aside) {
    return std::none_of(slot.unanswered.begin(), slot.unanswered.end(), [&](const auto& messages) {
      return std::any_of(messages.begin(), messages.end(),
                         [aside](const Message& message) { return message.aside == aside; });
    });
  };
  if (answer.slot == 0 && writing_.has_value() && answered(/*aside=*/true)) {
    writing_done_ = writing_;
    MUSTER_RETURN_IF_ERROR(CommitCheckpoint(*std::exchange(writing_, std::nullopt)));
    return slot.phase == Phase::kAwaitFiles ? NextPhase(answer.slot) : absl::OkStatus();
  }
  const bool waits = slot.phase == Phase::kAwaitFiles || slot.phase == Phase::kDone;
  return !waits && answered(/*aside=*/false) ? NextPhase(answer.slot) : absl::OkStatus();
}

// --- Events.

absl::Status HistoryWorld::Respawn(uint32_t slot) {
  ++tally_.respawns;
  ++slots_[slot].incarnation;
  return StartTask(slot);
}

absl::Status HistoryWorld::Fault() {
  const uint64_t kind = Below(kFaultKinds);
  const uint32_t slot = Below(slots_.size());
  const uint32_t server = Below(options_.servers);
  if (faults_left_[kind]-- <= 0) return absl::OkStatus();
  if (kind == 0) return Reconnect(slot, server);
  if (kind == 1) return Respawn(slot);
  if (kind == 3) {
    servers_[server]->disk_failures = 1 + Below(kMostDiskFailures);
    return absl::OkStatus();
  }
  servers_[server]->crash_point = options_.workload.durable && Below(2) == 0
                                      ? kCrashPoints[Below(kCrashPoints.size())]
                                      : kScratchCrashPoints[Below(kScratchCrashPoints.size())];
  servers_[server]->crash_after = 1 + Below(8);
  return absl::OkStatus();
}

absl::Status HistoryWorld::Event() {
  if (Below(40) == 0) return Fault();
  const uint64_t choice = Below(20);
  if (choice < 9) return DeliverMessage();
  if (choice < 12) return RunExecutor(Below(options_.servers));
  if (choice < 17) return DeliverAnswer();
  if (choice < 18) {
    const uint32_t server = Below(options_.servers);
    servers_[server]->file_executor.RunOne();
    return servers_[server]->crashed ? RestartServer(server) : absl::OkStatus();
  }
  if (choice < 19) return DeliverGhost();

  // A task whose stream broke comes back; so does one that has waited long enough for an answer
  // that was lost.
  const bool quiet = answers_.empty() &&
                     std::all_of(servers_.begin(), servers_.end(),
                                 [](const auto& server) {
                                   return server->executor.idle() && server->file_executor.idle();
                                 }) &&
                     std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
                       return std::all_of(slot.wire.begin(), slot.wire.end(),
                                          [](const auto& wire) { return wire.empty(); });
                     });
  const uint32_t slot = Below(slots_.size());
  const uint32_t server = Below(options_.servers);
  if (slots_[slot].broken[server] || (quiet && !slots_[slot].unanswered[server].empty())) {
    return Reconnect(slot, server);
  }
  return absl::OkStatus();
}

bool HistoryWorld::Finished() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.phase == Phase::kDone; });
}

absl::Status HistoryWorld::Run() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) MUSTER_RETURN_IF_ERROR(StartTask(slot));
  for (int events = 0; !Finished(); ++events) {
    if (events == kMostEvents) return Fail("the job does not come to its end");
    MUSTER_RETURN_IF_ERROR(Event());
    MUSTER_RETURN_IF_ERROR(ghost_failure_);
  }
  return CheckFinalValues();
}

}  // namespace muster
