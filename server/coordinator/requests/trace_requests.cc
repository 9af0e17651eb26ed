#include "server/coordinator/requests/trace_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

constexpr uint32_t kMostSteps = 100;
constexpr absl::Duration kMostWait = absl::Hours(1);
// Time within which all tasks report, and so learn of the trace, with some to spare.
constexpr double kNoticeSeconds = 1.5;
// Time after which a job that has become slower gets earlier steps to record.
constexpr absl::Duration kLookAgain = absl::Seconds(3);
// Events of one trace, which all processes share; each may send some.
constexpr size_t kMostEvents = 400'000;
constexpr size_t kLeastEventsOfProcess = 1000;
// Time that servers have after the end of the job.
constexpr absl::Duration kAfterJob = absl::Seconds(2);

// Returns the job's speed; 0: it is not known.
double StepsPerSecond(const Job& job) {
  const v1::JobProgress progress = job.progress.Progress(job.record.met().total_steps());
  if (progress.seconds_left() <= 0) return 0;
  return static_cast<double>(progress.total_steps() - progress.step()) / progress.seconds_left();
}

// Returns whether slots may be at different steps.
bool IsAsynchronous(const v1::JobSpec& spec) {
  return !TrainsByAllReduce(spec) &&
         (spec.update().unlimited_staleness() || spec.update().staleness_bound() > 0);
}

// Returns whether a step can be ordered that no slot has reported.
bool HasStepsLeft(const Job& job) {
  return job.progress.furthest() + 1 < job.record.met().total_steps();
}

// Returns how many steps the job makes until all tasks know of a trace.
uint64_t NoticeSteps(double steps_per_second) {
  return static_cast<uint64_t>(std::ceil(steps_per_second * kNoticeSeconds));
}

// Returns the steps that a slot at `clock` is to record, so far ahead that it learns of them before
// it comes there, if the job is not over before.
v1::TraceOrder StepsFrom(uint64_t clock, uint32_t steps, double steps_per_second, uint64_t total) {
  const uint64_t soonest = clock + 1;
  const uint64_t latest = std::max(soonest, total > steps ? total - steps : 0);
  v1::TraceOrder order;
  order.set_first_step(std::min(soonest + NoticeSteps(steps_per_second), latest));
  order.set_end_step(std::min(order.first_step() + steps, total));
  return order;
}

absl::Duration WaitFor(const v1::TraceJobRequest& request, uint64_t steps,
                       double steps_per_second) {
  if (request.wait_ms() > 0) return absl::Milliseconds(request.wait_ms());
  const double seconds = steps_per_second > 0
                             ? 30 + 3 * static_cast<double>(steps) / steps_per_second
                             : 60 + 10 * static_cast<double>(steps);
  return std::min(absl::Seconds(seconds), kMostWait);
}

}  // namespace

TraceRequests::TraceRequests(const JobTable& jobs, const Clock& clock)
    : jobs_(jobs), clock_(clock) {}

absl::StatusOr<TraceRequests::Ticket> TraceRequests::Begin(const v1::TraceJobRequest& request) {
  const Job* const job = jobs_.Find(request.job_id());
  if (job == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no job \"", request.job_id(), "\"; `muster list` shows all jobs"));
  }
  if (request.steps() == 0 || request.steps() > kMostSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps is ", request.steps(), "; it must be from 1 to ", kMostSteps));
  }
  if (absl::Milliseconds(request.wait_ms()) > kMostWait) {
    return absl::InvalidArgumentError(absl::StrCat("wait_ms is ", request.wait_ms(),
                                                   "; it must be at most ",
                                                   absl::ToInt64Milliseconds(kMostWait)));
  }
  AnswerChanged();
  if (trace_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", trace_->job_id, " is being traced, steps ", trace_->order.first_step(), " to ",
        trace_->order.end_step() - 1, "; one trace at a time: try again when it has ended"));
  }
  const v1::JobRecord& record = job->record;
  if (record.state() != v1::RUNNING || record.met().total_steps() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " is ", v1::JobState_Name(record.state()),
                     " and does not train now; trace it while it does"));
  }
  const std::vector<uint32_t> slots = TrainingSlots(record);
  const uint64_t total = record.met().total_steps();
  const double speed = StepsPerSecond(*job);
  uint64_t clock = 0;
  for (const uint32_t slot : slots) clock = std::max(clock, job->progress.clock(slot));
  if (clock + 1 >= total) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " is at step ", clock, " of ", total, " and ends before it is traced"));
  }
  Trace& trace = trace_.emplace();
  trace.job_id = job->id();
  trace.steps = request.steps();
  for (const uint32_t slot : slots) {
    v1::TraceProcess& process = trace.slots[slot].process;
    process.set_slot(slot);
    process.set_incarnation(record.slots(slot).incarnation());
    process.set_worker_id(record.slots(slot).worker_id());
  }
  for (const v1::PartitionPlacement& partition : record.partitions()) {
    if (partition.replicas().empty()) continue;
    const std::string& server = partition.replicas(0).server_id();
    trace.servers[server].process.set_server_id(server);
  }
  trace.began = clock_.Monotonic();
  Order(*job);
  trace.wait = WaitFor(request, trace.order.end_step() - job->progress.step(), speed);
  trace.deadline = trace.began + trace.wait;
  const auto ticket = std::make_shared<const uint64_t>(last_number_);
  trace.ticket = ticket;
  return ticket;
}

void TraceRequests::Order(const Job& job) {
  Trace& trace = *trace_;
  const v1::JobRecord& record = job.record;
  const uint64_t total = record.met().total_steps();
  const double speed = StepsPerSecond(job);
  last_number_ = std::max(last_number_ + 1, static_cast<uint64_t>(jobs_.NowUnixMs()));
  const size_t processes = trace.slots.size() + trace.servers.size();
  const size_t most = std::max(kLeastEventsOfProcess, kMostEvents / processes);
  const auto order_from = [&](uint64_t clock) {
    v1::TraceOrder order = StepsFrom(clock, trace.steps, speed, total);
    order.set_trace(last_number_);
    order.set_job_id(job.id());
    order.set_max_events(static_cast<uint32_t>(most));
    return order;
  };
  uint64_t clock = 0;
  for (const auto& [slot, sender] : trace.slots) {
    clock = std::max(clock, job.progress.clock(slot));
  }
  trace.order = order_from(clock);
  for (auto& [slot, sender] : trace.slots) {
    sender.order = trace.order;
    if (IsAsynchronous(record.spec())) sender.order = order_from(job.progress.clock(slot));
    sender.pieces = 0;
    sender.done = false;
  }
  for (const auto& [slot, sender] : trace.slots) {
    trace.order.set_first_step(std::min(trace.order.first_step(), sender.order.first_step()));
  }
  for (auto& [id, sender] : trace.servers) {
    sender.order = trace.order;
    sender.pieces = 0;
  }
  trace.look_at = clock_.Monotonic() + kLookAgain;
  v1::TraceChunk chunk;
  *chunk.mutable_order() = trace.order;
  chunk.set_begin_ns(absl::ToInt64Nanoseconds(trace.began));
  for (const auto& [slot, sender] : trace.slots) *chunk.add_processes() = sender.process;
  for (const auto& [id, sender] : trace.servers) *chunk.add_processes() = sender.process;
  chunk.set_on_device(record.spec().compute().device() == v1::ComputeSpec::CUDA);
  Add(std::move(chunk));
  ++version_;
}

void TraceRequests::LookAgain(const Job& job) {
  if (trace_->recorded || clock_.Monotonic() < trace_->look_at) return;
  trace_->look_at = clock_.Monotonic() + kLookAgain;
  const uint64_t soon = 2 * (NoticeSteps(StepsPerSecond(job)) + 1);
  for (const auto& [slot, sender] : trace_->slots) {
    if (sender.order.first_step() > job.progress.clock(slot) + soon) return Order(job);
  }
}

const v1::TraceOrder* TraceRequests::OrderForSlot(const Job& job, uint32_t slot) const {
  if (!trace_.has_value() || trace_->ended || trace_->job_id != job.id()) return nullptr;
  const auto it = trace_->slots.find(slot);
  return it == trace_->slots.end() || it->second.done ? nullptr : &it->second.order;
}

const v1::TraceOrder* TraceRequests::OrderForServer(const std::string& server_id) const {
  if (!trace_.has_value() || trace_->ended) return nullptr;
  const auto it = trace_->servers.find(server_id);
  return it == trace_->servers.end() || it->second.done ? nullptr : &it->second.order;
}

v1::TraceReply TraceRequests::ReplyFor(bool wanted) const {
  v1::TraceReply reply;
  reply.set_clock_ns(absl::ToInt64Nanoseconds(clock_.Monotonic()));
  reply.set_wanted(wanted);
  reply.set_finish(wanted && SlotsDone());
  return reply;
}

v1::TraceReply TraceRequests::TakeFromSlot(const Job& job, const v1::TaskIdentity& task,
                                           const v1::TracePiece& piece) {
  const v1::TraceOrder* const order = OrderForSlot(job, task.slot());
  if (order == nullptr || order->trace() != piece.trace()) return ReplyFor(false);
  if (!piece.events().empty()) trace_->recorded = true;
  if (piece.last() && !trace_->recorded && HasStepsLeft(job)) {
    // The task had made the steps before it knew of them, because the job has become faster.
    Order(job);
    return ReplyFor(false);
  }
  Sender& sender = trace_->slots[task.slot()];
  if (sender.process.incarnation() != task.incarnation()) {
    sender.process.set_incarnation(task.incarnation());
    sender.process.set_worker_id(job.record.slots(task.slot()).worker_id());
    sender.pieces = 0;
  }
  return Take(sender, piece);
}

v1::TraceReply TraceRequests::TakeFromServer(const std::string& server_id, uint64_t incarnation,
                                             const v1::TracePiece& piece) {
  const v1::TraceOrder* const order = OrderForServer(server_id);
  if (order == nullptr || order->trace() != piece.trace()) return ReplyFor(false);
  Sender& sender = trace_->servers[server_id];
  if (std::exchange(sender.incarnation, incarnation) != incarnation) sender.pieces = 0;
  return Take(sender, piece);
}

v1::TraceReply TraceRequests::Take(Sender& sender, const v1::TracePiece& piece) {
  // Piece 0 only compares the clocks.
  if (piece.number() <= sender.pieces) return ReplyFor(true);
  sender.pieces = piece.number();
  sender.done = piece.last();
  if (!piece.events().empty() || piece.last()) {
    v1::TraceChunk chunk;
    *chunk.mutable_source() = sender.process;
    *chunk.mutable_piece() = piece;
    Add(std::move(chunk));
  }
  if (sender.done) ++version_;
  const v1::TraceReply reply = ReplyFor(!sender.done);
  if (AllDone()) End("");
  return reply;
}

void TraceRequests::Add(v1::TraceChunk chunk) {
  const size_t bytes = chunk.ByteSizeLong();
  if (trace_->bytes + bytes > kMostWaitingBytes) {
    ++trace_->lost_pieces;
    return;
  }
  trace_->bytes += bytes;
  trace_->chunks.push_back(std::move(chunk));
}

bool TraceRequests::SlotsDone() const {
  return std::all_of(trace_->slots.begin(), trace_->slots.end(),
                     [](const auto& slot) { return slot.second.done; });
}

bool TraceRequests::AllDone() const {
  return SlotsDone() && std::all_of(trace_->servers.begin(), trace_->servers.end(),
                                    [](const auto& server) { return server.second.done; });
}

void TraceRequests::End(const std::string& why) {
  v1::TraceChunk last;
  for (const auto& [slot, sender] : trace_->slots) {
    if (!sender.done) *last.add_missing() = sender.process;
  }
  for (const auto& [id, sender] : trace_->servers) {
    if (!sender.done) *last.add_missing() = sender.process;
  }
  last.set_ended_because(why);
  last.set_lost_pieces(trace_->lost_pieces);
  // Beyond the bound: without it the caller would not know that the trace is over.
  trace_->chunks.push_back(std::move(last));
  trace_->ended = true;
  ++version_;
}

void TraceRequests::Next(const Ticket& ticket, Call<Update> call) {
  if (!trace_.has_value() || trace_->ticket.lock() != ticket) {
    return call.done(absl::AbortedError("the trace is over"));
  }
  trace_->call = std::move(call);
  AnswerChanged();
}

void TraceRequests::AnswerChanged() {
  if (!trace_.has_value()) return;
  if (trace_->call.has_value() && trace_->call->gone()) {
    trace_->call->done(absl::CancelledError("the caller is gone"));
    trace_.reset();
    ++version_;
    return;
  }
  if (trace_->ticket.expired()) {
    trace_.reset();
    ++version_;
    return;
  }
  const absl::Duration now = clock_.Monotonic();
  const Job* const job = jobs_.Find(trace_->job_id);
  const bool job_ended = job == nullptr || IsFinal(job->record.state());
  if (job_ended) trace_->deadline = std::min(trace_->deadline, now + kAfterJob);
  if (!trace_->ended && !job_ended) LookAgain(*job);
  if (!trace_->ended && now >= trace_->deadline) {
    End(job_ended ? "the job ended"
                  : absl::StrCat("the time of ", absl::FormatDuration(trace_->wait), " was up"));
  }
  if (!trace_->call.has_value() || trace_->chunks.empty()) return;
  Update update;
  update.chunk = std::move(trace_->chunks.front());
  trace_->chunks.pop_front();
  trace_->bytes -= std::min(trace_->bytes, update.chunk.ByteSizeLong());
  update.last = trace_->ended && trace_->chunks.empty();
  const Call<Update> call = *std::exchange(trace_->call, std::nullopt);
  if (update.last) trace_.reset();
  call.done(std::move(update));
}

void TraceRequests::AnswerAll(const absl::Status& status) {
  if (!trace_.has_value()) return;
  if (trace_->call.has_value()) trace_->call->done(status);
  trace_.reset();
  ++version_;
}

}  // namespace muster
