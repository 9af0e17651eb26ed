#include "tests/benchmarks/coordinator/simulated_daemon.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/rpc/channel.h"
#include "common/rpc/membership/protocol.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/channel.h"
#include "tests/benchmarks/coordinator/rpc_call.h"

namespace muster {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(5);

std::string KeyOf(const v1::TaskOrder& order) {
  return absl::StrCat(order.job_id(), " ", order.generation(), " ", order.slot(), " ",
                      order.incarnation());
}

v1::TaskReport RunningReport(const v1::TaskOrder& order) {
  v1::TaskReport report;
  report.set_job_id(order.job_id());
  report.set_generation(order.generation());
  report.set_slot(order.slot());
  report.set_incarnation(order.incarnation());
  report.set_state(v1::TaskReport::RUNNING);
  return report;
}

// Adds figures as a daemon's heartbeat has them.
void AddFigures(v1::HeartbeatRequest& request) {
  for (int i = 0; i < 8; ++i) {
    v1::MetricFamily& family = *request.add_metrics();
    family.set_name(absl::StrCat("muster_simulated_figure_", i, "_total"));
    family.set_help("A figure of a simulated daemon.");
    family.set_type(v1::MetricFamily::COUNTER);
    family.add_metrics()->set_value(i);
  }
}

}  // namespace

SimulatedDaemon::SimulatedDaemon(Kind kind, int number, Fleet& fleet)
    : kind_(kind),
      id_(absl::StrCat(kind == Kind::kWorker ? "worker-" : "server-", number)),
      address_(absl::StrCat("10.", kind == Kind::kWorker ? 1 : 2, ".", number / 256, ".",
                            number % 256, ":7071")),
      fleet_(fleet),
      number_(fleet.AddDaemon()),
      stub_(v1::ClusterService::NewStub(
          MakeChannel(fleet.coordinator(), RpcCredentials::PlainText(), ConnectionSharing::kOwn))),
      backoff_(BackoffOptions(), Philox(static_cast<uint64_t>(number), "daemon", id_)) {}

void SimulatedDaemon::Start() { Register(); }

void SimulatedDaemon::EndTasks() {
  for (auto& [key, running] : tasks_) running.task->End();
  tasks_.clear();
}

void SimulatedDaemon::Replace() {
  {
    absl::MutexLock lock(&mutex_);
    EndTasks();
    ++process_;
  }
  Register();
}

void SimulatedDaemon::MeetAgain(uint64_t replica_step) {
  std::vector<std::shared_ptr<SimulatedTask>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, running] : tasks_) tasks.push_back(running.task);
  }
  for (const auto& task : tasks) task->MeetAgain(replica_step);
}

void SimulatedDaemon::Register() {
  v1::RegisterDaemonRequest request;
  uint64_t process = 0;
  {
    absl::MutexLock lock(&mutex_);
    process = process_;
  }
  request.set_protocol_version(kProtocolVersion);
  request.set_kind(kind_ == Kind::kWorker ? v1::WORKER : v1::SERVER);
  request.set_id(id_);
  request.set_process_nonce(process);
  request.set_address(address_);
  if (kind_ == Kind::kWorker) {
    request.set_slots(1);
    request.set_processors(8);
  }
  request.set_memory_bytes(uint64_t{64} << 30);
  RpcCall<v1::RegisterDaemonRequest, v1::RegisterDaemonReply>::Begin(
      std::move(request), kRegisterTimeout,
      [&](auto... arguments) { stub_->async()->RegisterDaemon(arguments...); },
      [this, process](const absl::Status& status, v1::RegisterDaemonReply& reply) {
        Registered(process, status, reply);
      });
}

void SimulatedDaemon::Registered(uint64_t process, const absl::Status& status,
                                 const v1::RegisterDaemonReply& reply) {
  {
    absl::MutexLock lock(&mutex_);
    if (process != process_) return;
    if (!status.ok()) {
      if (!IsRetryable(status)) fleet_.NoteError("RegisterDaemon", status);
      fleet_.timers().After(backoff_.Next(), [this] { Register(); });
      return;
    }
    backoff_.Reset();
    incarnation_ = reply.incarnation();
    lease_ = absl::Milliseconds(reply.lease_ms());
    first_beat_ = true;
    seen_orders_ = 0;
  }
  Beat();
}

void SimulatedDaemon::Beat() {
  v1::HeartbeatRequest request;
  uint64_t process = 0;
  bool first = false;
  absl::Duration timeout;
  {
    absl::MutexLock lock(&mutex_);
    process = process_;
    first = first_beat_;
    const absl::Duration poll = lease_ / 3;
    timeout = poll + lease_ / 3;
    request.set_id(id_);
    request.set_incarnation(incarnation_);
    request.set_seen_orders_version(seen_orders_);
    request.set_poll_ms(first ? 0 : static_cast<uint32_t>(absl::ToInt64Milliseconds(poll)));
    for (const auto& [key, running] : tasks_) *request.add_tasks() = running.report;
    for (const v1::DropOrder& drop : dropped_) *request.add_drops() = drop;
    AddFigures(request);
  }
  RpcCall<v1::HeartbeatRequest, v1::HeartbeatReply>::Begin(
      std::move(request), timeout,
      [&](auto... arguments) { stub_->async()->Heartbeat(arguments...); },
      [this, process, first](const absl::Status& status, v1::HeartbeatReply& reply) {
        Beaten(process, first, status, reply);
      });
}

void SimulatedDaemon::Beaten(uint64_t process, bool first, const absl::Status& status,
                             const v1::HeartbeatReply& reply) {
  std::vector<std::shared_ptr<SimulatedTask>> starting;
  {
    absl::MutexLock lock(&mutex_);
    if (process != process_) return;
    if (absl::IsAborted(status)) {
      // The lease is lost, and what it stood for.
      EndTasks();
      fleet_.timers().After(absl::ZeroDuration(), [this] { Register(); });
      return;
    }
    if (!status.ok() && !absl::IsCancelled(status)) {
      if (!IsRetryable(status)) fleet_.NoteError("Heartbeat", status);
      fleet_.timers().After(backoff_.Next(), [this] { Beat(); });
      return;
    }
    if (status.ok()) {
      backoff_.Reset();
      if (first || reply.orders_version() != seen_orders_) starting = TakeOrders(reply);
      first_beat_ = false;
      seen_orders_ = reply.orders_version();
    }
  }
  if (status.ok()) {
    ++fleet_.heartbeats;
    fleet_.Note(FleetEvent::kAnswered, number_);
  }
  for (const auto& task : starting) {
    fleet_.Note(FleetEvent::kOrdered, number_);
    task->Start();
  }
  Beat();
}

std::vector<std::shared_ptr<SimulatedTask>> SimulatedDaemon::TakeOrders(
    const v1::HeartbeatReply& orders) {
  std::vector<std::shared_ptr<SimulatedTask>> starting;
  std::set<std::string> ordered;
  for (const v1::TaskOrder& order : orders.tasks()) {
    const std::string key = KeyOf(order);
    ordered.insert(key);
    if (tasks_.contains(key)) continue;
    Running running = {.report = RunningReport(order),
                       .task = std::make_shared<SimulatedTask>(order, fleet_, number_)};
    starting.push_back(running.task);
    tasks_.emplace(key, std::move(running));
  }
  std::erase_if(tasks_, [&](auto& entry) {
    if (ordered.contains(entry.first)) return false;
    entry.second.task->End();
    return true;
  });
  dropped_.assign(orders.drops().begin(), orders.drops().end());
  return starting;
}

}  // namespace muster
