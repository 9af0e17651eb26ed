#include "server/coordinator/requests/daemon_requests.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/coordinator/calls/report_checks.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/request_limits.h"

namespace muster {
namespace {

// Bytes that are kept of a task's last error.
constexpr size_t kKeptMessageBytes = 8 << 10;
// Time for which lost daemons are still shown.
constexpr absl::Duration kForgetDaemonsAfter = absl::Hours(1);
// Time after which orders to drop tables end for a server that is gone.
constexpr absl::Duration kForgetDropsAfter = absl::Hours(24);

}  // namespace

DaemonRequests::DaemonRequests(JobTable& jobs, Membership& members, JobLifecycle& lifecycle,
                               MoveScheduler& moves, TraceRequests& traces, const Clock& clock,
                               CoordinatorMetrics& metrics, OrderContext context,
                               std::function<void(absl::string_view)> log)
    : jobs_(jobs),
      members_(members),
      lifecycle_(lifecycle),
      moves_(moves),
      traces_(traces),
      clock_(clock),
      metrics_(metrics),
      context_(std::move(context)),
      held_(jobs),
      log_(std::move(log)) {}

void DaemonRequests::SetAddress(std::string address) {
  context_.coordinator_address = std::move(address);
  orders_.clear();
}

void DaemonRequests::Register(const v1::RegisterDaemonRequest& request,
                              Call<v1::RegisterDaemonReply> call) {
  registrations_.push_back({request, std::move(call)});
}

absl::Status DaemonRequests::AdmitRegistered() {
  absl::Status status;
  while (!registrations_.empty()) status.Update(AdmitDifferent());
  return status;
}

absl::Status DaemonRequests::AdmitDifferent() {
  struct Admitted {
    Membership::Admission admission;
    Call<v1::RegisterDaemonReply> call;
  };
  const absl::Duration now = clock_.Monotonic();
  std::map<std::string, Admitted> admitted;
  uint64_t next_incarnation = jobs_.next_incarnation();
  while (!registrations_.empty() && !admitted.contains(registrations_.front().request.id())) {
    Registration next = std::move(registrations_.front());
    registrations_.pop_front();
    absl::StatusOr<Membership::Admission> admission =
        members_.Admit(next.request, next_incarnation, admitted.size(), now);
    if (!admission.ok()) {
      next.call.done(admission.status());
      continue;
    }
    if (!admission->renewed) ++next_incarnation;
    admitted[next.request.id()] = {*std::move(admission), std::move(next.call)};
  }
  if (admitted.empty()) return absl::OkStatus();

  std::vector<v1::DaemonRecord> records;
  for (const auto& [id, daemon] : admitted) records.push_back(daemon.admission.record);
  const absl::Status stored = jobs_.PutDaemons(records);
  std::vector<std::string> ended;
  for (const auto& [id, daemon] : admitted) {
    if (!stored.ok()) break;
    members_.Commit(daemon.admission, now);
    if (daemon.admission.replaces_live) metrics_.daemons_lost.Increment();
    // An earlier incarnation is lost with all it had; jobs may wait for a server's next one.
    if (!daemon.admission.renewed) ended.push_back(id);
  }
  absl::Status status = stored;
  if (!ended.empty()) status.Update(IncarnationsEnded(ended));
  for (const auto& [id, daemon] : admitted) {
    const absl::Status& own = daemon.admission.renewed ? stored : status;
    if (!own.ok()) {
      daemon.call.done(own);
      continue;
    }
    v1::RegisterDaemonReply reply;
    reply.set_incarnation(daemon.admission.record.incarnation());
    reply.set_lease_ms(absl::ToInt64Milliseconds(members_.lease()));
    daemon.call.done(std::move(reply));
  }
  return status;
}

absl::Status DaemonRequests::IncarnationsEnded(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    // The parked call of an earlier incarnation must not get the orders of the next.
    if (auto node = parked_.extract(id); !node.empty()) {
      node.mapped().call.done(absl::AbortedError(
          absl::StrCat("daemon ", id, " was replaced or lost its lease; register again")));
    }
    metrics_.Forget(id);
    heard_.erase(id);
  }
  absl::Status status;
  for (const auto& [number, job] : jobs_.jobs()) {
    for (const std::string& id : ids) job->replays.erase(id);
    status.Update(lifecycle_.Reconcile(*job));
  }
  return status;
}

void DaemonRequests::Heartbeat(const v1::HeartbeatRequest& request, Call<v1::HeartbeatReply> call) {
  for (const v1::ReplayStatus& replay : request.replays()) {
    if (absl::Status status = CheckNumbers(replay); !status.ok()) {
      return call.done(status);
    }
  }
  const absl::Duration now = clock_.Monotonic();
  const Member* known = members_.Find(request.id());
  const bool first_heard = known != nullptr && !known->heard;
  if (absl::Status status = members_.Renew(request.id(), request.incarnation(), now);
      !status.ok()) {
    call.done(status);
    return;
  }
  if (request.leaves_within_ms() > 0) members_.WillLeave(request.id(), request.incarnation());
  metrics_.heartbeats.Increment();
  metrics_.Take(request);
  Heard& heard = heard_[request.id()];
  heard = {.incarnation = request.incarnation(), .seen_version = request.seen_orders_version()};
  for (const v1::TaskReport& report : request.tasks()) {
    if (report.state() == v1::TaskReport::RUNNING) heard.jobs.insert(report.job_id());
  }
  TakeReplays(request);
  absl::Status status = TakeDrops(request);
  for (const v1::TaskReport& report : request.tasks()) {
    status.Update(TakeReport(request.id(), request.incarnation(), report));
  }
  status.Update(moves_.TakeReports(request));
  if (request.leaving() && status.ok()) {
    status = jobs_.RemoveDaemons({request.id()});
    members_.Leave(request.id(), request.incarnation(), now);
    status.Update(IncarnationsEnded({request.id()}));
    if (status.ok()) {
      call.done(v1::HeartbeatReply());
      return;
    }
  }
  if (!status.ok()) {
    // Reports come again with the next heartbeat.
    metrics_.store_errors.Increment();
    call.done(absl::UnavailableError(
        absl::StrCat("the coordinator could not store what was reported: ", status.message())));
    return;
  }
  if (auto node = parked_.extract(request.id()); !node.empty()) {
    node.mapped().call.done(absl::CancelledError("a later heartbeat came"));
  }
  // A call that is parked longer than a third of the lease would put the lease at risk.
  const absl::Duration poll = std::min(absl::Milliseconds(request.poll_ms()), members_.lease() / 3);
  Parked parked = {.incarnation = request.incarnation(),
                   .seen_version = request.seen_orders_version(),
                   .deadline = now + poll,
                   .call = std::move(call)};
  // After a change of records the orders are old until placements are made. Placements are due,
  // too, when a daemon is heard for the first time since the coordinator's restart.
  const bool current = jobs_.version() == answered_version_ && !first_heard;
  if (!current || !Answer(request.id(), parked, now)) parked_[request.id()] = std::move(parked);
}

void DaemonRequests::TakeReplays(const v1::HeartbeatRequest& request) {
  for (const v1::ReplayStatus& replay : request.replays()) {
    Job* job = jobs_.Find(replay.job_id());
    // Logs of an earlier generation are not used any more.
    if (job == nullptr || replay.generation() != job->record.generation()) continue;
    v1::ReplayStatus& known = job->replays[request.id()];
    if (known.records() == replay.records() && known.bytes() == replay.bytes() &&
        known.partitions() == replay.partitions() && known.seconds() == replay.seconds()) {
      continue;
    }
    known = replay;
    known.set_server_id(request.id());
    ++job->status_version;
  }
}

absl::Status DaemonRequests::TakeDrops(const v1::HeartbeatRequest& request) {
  Drops dropped;
  for (const v1::DropOrder& drop : request.drops()) dropped[drop.job_id()] = drop.generation();
  MUSTER_RETURN_IF_ERROR(jobs_.ClearDrops(request.id(), dropped));
  for (const std::string& job_id : request.held_jobs()) {
    if (jobs_.DropsOf(request.id()).contains(job_id)) continue;
    const Job* job = jobs_.Find(job_id);
    if (job != nullptr ? !IsFinal(job->record.state()) : !jobs_.IsForgotten(job_id)) continue;
    MUSTER_RETURN_IF_ERROR(
        jobs_.NoteDrop(request.id(), job_id, job == nullptr ? 0 : job->record.generation()));
  }
  return absl::OkStatus();
}

absl::Status DaemonRequests::EndDropsOfLostServers() {
  const absl::Duration now = clock_.Monotonic();
  absl::Status status;
  // A copy, since ClearDrops changes the table's map.
  const std::map<std::string, Drops, std::less<>> drops = jobs_.drops();
  for (auto it = drops_wait_since_.begin(); it != drops_wait_since_.end();) {
    const Member* member = members_.Find(it->first);
    const bool waits = drops.contains(it->first) && (member == nullptr || !member->live);
    it = waits ? std::next(it) : drops_wait_since_.erase(it);
  }
  for (const auto& [server, jobs] : drops) {
    const Member* member = members_.Find(server);
    if (member != nullptr && member->live) continue;
    if (now - drops_wait_since_.emplace(server, now).first->second < kForgetDropsAfter) continue;
    const absl::Status cleared = jobs_.ClearDrops(server, jobs);
    if (cleared.ok() && log_ != nullptr) {
      log_(absl::StrCat("server ", server, " has been gone for ",
                        absl::FormatDuration(kForgetDropsAfter),
                        ", and its orders to drop the tables of ", jobs.size(),
                        " jobs end; what it holds is dropped if it comes back"));
    }
    status.Update(cleared);
  }
  return status;
}

absl::Status DaemonRequests::TakeReport(const std::string& daemon_id, uint64_t daemon_incarnation,
                                        const v1::TaskReport& report) {
  Job* job = jobs_.Find(report.job_id());
  if (job == nullptr || !IsActive(job->record.state()) || report.slot() >= job->slots() ||
      report.generation() != job->record.generation()) {
    return absl::OkStatus();
  }
  const v1::SlotRecord& holder = job->record.slots(report.slot());
  if (holder.done() || holder.incarnation() != report.incarnation() ||
      holder.worker_id() != daemon_id || holder.worker_incarnation() != daemon_incarnation) {
    return absl::OkStatus();
  }
  const std::string message = Shortened(report.message(), kKeptMessageBytes);
  switch (report.state()) {
    case v1::TaskReport::RUNNING:
      if (!job->tasks[report.slot()].running) ++job->status_version;
      job->tasks[report.slot()].running = true;
      return absl::OkStatus();
    case v1::TaskReport::ENDED:
      return lifecycle_.TaskEnded(*job, report.slot(), report.code(), message, report.loss());
    case v1::TaskReport::DIED:
      return lifecycle_.TaskDied(*job, report.slot(), message);
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<v1::AppendLogsReply> DaemonRequests::AppendLogs(
    const v1::AppendLogsRequest& request) {
  Job* job = jobs_.Find(request.job_id());
  if (job == nullptr || job->removing) {
    return absl::NotFoundError(absl::StrCat("job ", request.job_id(), " is gone; drop its log"));
  }
  MUSTER_RETURN_IF_ERROR(jobs_.AppendLog(*job, request.slot(), request.text()));
  return v1::AppendLogsReply();
}

absl::StatusOr<v1::TraceReply> DaemonRequests::ReportServerTrace(
    const v1::ReportServerTraceRequest& request) {
  if (!members_.Holds(request.id(), request.incarnation())) {
    return absl::AbortedError(
        absl::StrCat("daemon ", request.id(), " has another incarnation now; register again"));
  }
  return traces_.TakeFromServer(request.id(), request.incarnation(), request.piece());
}

bool DaemonRequests::MayWrite(const Job& job) {
  for (const auto& [id, member] : members_.members()) {
    if (!member.live || member.kind() != v1::WORKER) continue;
    const auto heard = heard_.find(id);
    const bool has_said =
        heard != heard_.end() && heard->second.incarnation == member.record.incarnation();
    if (has_said && heard->second.jobs.contains(job.id())) return true;
    // A worker that has yet to learn of the job's end may just have started a task.
    const bool holds = std::any_of(
        job.record.slots().begin(), job.record.slots().end(), [&](const v1::SlotRecord& slot) {
          return !slot.done() && slot.worker_id() == id &&
                 slot.worker_incarnation() == member.record.incarnation();
        });
    if (!holds) continue;
    if (!has_said || heard->second.seen_version != OrdersFor(member).orders_version()) return true;
  }
  return false;
}

absl::StatusOr<bool> DaemonRequests::ExpireLeases() {
  const std::vector<std::string> lost = members_.Expire(clock_.Monotonic(), kForgetDaemonsAfter);
  if (lost.empty()) return false;
  metrics_.daemons_lost.Increment(static_cast<double>(lost.size()));
  absl::Status status = jobs_.RemoveDaemons(lost);
  status.Update(IncarnationsEnded(lost));
  if (!status.ok()) return status;
  return true;
}

const v1::HeartbeatReply& DaemonRequests::OrdersFor(const Member& member) {
  Orders& orders = orders_[member.record.id()];
  const bool server = member.kind() == v1::SERVER;
  if (orders.table_version == jobs_.version() &&
      orders.incarnation == member.record.incarnation() &&
      (!server || orders.trace_version == traces_.version())) {
    return orders.reply;
  }
  if (server) {
    orders.reply = OrdersOfServer(member, jobs_, traces_.OrderForServer(member.record.id()));
  } else {
    UpdateWorker(member, orders);
  }
  orders.table_version = jobs_.version();
  orders.trace_version = traces_.version();
  orders.incarnation = member.record.incarnation();
  return orders.reply;
}

void DaemonRequests::UpdateWorker(const Member& member, Orders& orders) {
  const absl::Span<const HeldSlot> held = held_.Of(member.record.id(), member.record.incarnation());
  HeldVersions now;
  for (const auto& [job, slot] : held) {
    now.emplace_back(job->record.number(), slot, job->record_version);
  }
  // A change of one job does not concern the workers of other jobs.
  const bool same = orders.reply.orders_version() != 0 &&
                    orders.incarnation == member.record.incarnation() && orders.held == now;
  if (same) return;
  orders.reply = OrdersOfWorker(member, held, context_);
  orders.held = std::move(now);
}

bool DaemonRequests::Answer(const std::string& id, Parked& parked, absl::Duration now) {
  const Member* member = members_.Find(id);
  if (parked.call.gone()) {
    members_.Disconnected(id, parked.incarnation);
    parked.call.done(absl::CancelledError("the caller is gone"));
    return true;
  }
  if (member == nullptr || !member->live || member->record.incarnation() != parked.incarnation) {
    parked.call.done(
        absl::AbortedError(absl::StrCat("daemon ", id, " lost its lease; register again")));
    return true;
  }
  const v1::HeartbeatReply& orders = OrdersFor(*member);
  const bool changed = orders.orders_version() != parked.seen_version;
  if (!changed && now < parked.deadline) return false;
  if (changed) heard_[id].seen_version = 0;
  parked.call.done(orders);
  return true;
}

void DaemonRequests::AnswerChanged() {
  const absl::Duration now = clock_.Monotonic();
  for (auto it = parked_.begin(); it != parked_.end();) {
    it = Answer(it->first, it->second, now) ? parked_.erase(it) : std::next(it);
  }
  answered_version_ = jobs_.version();
}

void DaemonRequests::AnswerAll(const absl::Status& status) {
  for (Registration& parked : std::exchange(registrations_, {})) parked.call.done(status);
  for (auto& [id, parked] : std::exchange(parked_, {})) parked.call.done(status);
}

}  // namespace muster
