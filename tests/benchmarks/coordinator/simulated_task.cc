#include "tests/benchmarks/coordinator/simulated_task.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/job/job_road.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/channel.h"
#include "tests/benchmarks/coordinator/rpc_call.h"

namespace muster {
namespace {

// As of ProgressReporter and of the coordinator's client in a task.
constexpr absl::Duration kLeastReportInterval = absl::Milliseconds(250);
constexpr absl::Duration kReportTimeout = absl::Seconds(5);
constexpr absl::Duration kMeetTimeout = absl::Minutes(10);
constexpr uint64_t kMostPoints = 64;
constexpr uint64_t kTotalSteps = 1'000'000'000;

Philox RandomOf(const v1::TaskIdentity& task) {
  return Philox(task.incarnation(), "task", absl::StrCat(task.job_id(), "/", task.slot()));
}

v1::TaskIdentity IdentityOf(const v1::TaskOrder& order) {
  v1::TaskIdentity identity;
  identity.set_job_id(order.job_id());
  identity.set_generation(order.generation());
  identity.set_slot(order.slot());
  identity.set_incarnation(order.incarnation());
  return identity;
}

void AddSeries(const std::string& name, uint64_t first, uint64_t last, double value,
               v1::ReportProgressRequest& request) {
  v1::ReportedSeries& series = *request.add_series();
  series.set_name(name);
  if (name == "train/loss") series.set_weight(1);
  for (uint64_t step = first; step <= last; ++step) {
    v1::SeriesPoint& point = *series.add_points();
    point.set_first_step(step);
    point.set_last_step(step);
    point.set_values(1);
    point.set_last(value / static_cast<double>(step));
  }
}

}  // namespace

SimulatedTask::SimulatedTask(const v1::TaskOrder& order, Fleet& fleet, int daemon)
    : identity_(IdentityOf(order)),
      in_rounds_(TrainsInRounds(order.spec())),
      fleet_(fleet),
      daemon_(daemon),
      stub_(v1::TaskService::NewStub(
          MakeChannel(fleet.coordinator(), RpcCredentials::PlainText(), ConnectionSharing::kOwn))),
      backoff_(BackoffOptions(), RandomOf(identity_)) {}

void SimulatedTask::Start() { Meet(); }

void SimulatedTask::MeetAgain(uint64_t replica_step) {
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || !in_rounds_) return;
    replica_step_ = replica_step;
  }
  Meet();
}

void SimulatedTask::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

void SimulatedTask::Meet() {
  v1::RendezvousRequest request;
  uint64_t attempt = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    attempt = ++attempt_;
    *request.mutable_task() = identity_;
    request.set_data_fingerprint(7);
    request.set_training_examples(kTotalSteps);
    request.set_held_out_examples(10);
    request.set_total_steps(kTotalSteps);
    request.set_schema_fingerprint(8);
    if (in_rounds_) {
      // About as long as a real one, which names addresses and a shared memory's socket.
      request.set_endpoint(absl::StrCat("10.0.0.1:", 20000 + daemon_, std::string(48, 'e')));
      request.set_bucket_plan_fingerprint(9);
      request.set_round(round_);
      if (replica_step_ > 0) request.set_replica_clock(replica_step_);
      if (round_ > 0) request.set_failure("slot 0 at 10.0.0.1:20000: the connection was closed");
    }
  }
  RpcCall<v1::RendezvousRequest, v1::RendezvousReply>::Begin(
      std::move(request), kMeetTimeout,
      [&](auto... arguments) { stub_->async()->Rendezvous(arguments...); },
      [self = shared_from_this(), attempt](const absl::Status& status, v1::RendezvousReply& reply) {
        self->Met(attempt, status, reply);
      });
}

void SimulatedTask::Met(uint64_t attempt, const absl::Status& status,
                        const v1::RendezvousReply& reply) {
  bool begins = false;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || attempt != attempt_) return;
    if (status.ok()) {
      backoff_.Reset();
      round_ = reply.round();
      report_number_ = 0;
      begins = !std::exchange(reporting_, true);
      // What was made before the task began is not its to tell.
      if (begins) told_step_ = fleet_.StepNow();
    } else if (absl::IsAborted(status) || absl::IsNotFound(status)) {
      ended_ = true;
      return;
    } else {
      if (!absl::IsUnavailable(status)) fleet_.NoteError("Rendezvous", status);
      fleet_.timers().After(backoff_.Next(), [self = shared_from_this()] { self->Meet(); });
      return;
    }
  }
  fleet_.Note(FleetEvent::kMet, daemon_);
  if (!begins) return;
  // Tasks do not report at the same moment.
  ReportAfter(kLeastReportInterval * RandomOf(identity_).Uniform(0));
}

void SimulatedTask::ReportAfter(absl::Duration delay) {
  fleet_.timers().After(delay, [self = shared_from_this()] { self->Report(); });
}

void SimulatedTask::Report() {
  v1::ReportProgressRequest request;
  uint64_t round = 0;
  uint64_t step = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    if (!fleet_.reports()) return ReportAfter(kLeastReportInterval);
    step = std::max(fleet_.StepNow(), told_step_);
    const uint64_t first = std::max(told_step_ + 1, step > kMostPoints ? step - kMostPoints : 1);
    const uint64_t steps = step + 1 - std::min(first, step + 1);
    round = round_;
    *request.mutable_task() = identity_;
    request.set_clock(step);
    request.set_steps(steps);
    request.set_examples(32 * steps);
    request.set_loss_sum(2.5 * static_cast<double>(32 * steps));
    request.set_training_seconds(0.025 * static_cast<double>(steps));
    request.set_compute_seconds(0.020 * static_cast<double>(steps));
    request.set_exposed_communication_seconds(0.004 * static_cast<double>(steps));
    request.set_waiting_seconds(0.001 * static_cast<double>(steps));
    request.set_process_cpu_seconds(1.5 * static_cast<double>(step));
    request.set_process_peak_bytes(uint64_t{3} << 30);
    request.set_process_mapped_bytes(uint64_t{64} << 20);
    request.set_tokens(32 * 256 * steps);
    if (in_rounds_) {
      request.set_round(round_);
      request.set_bytes_sent(steps << 20);
      request.set_bytes_received(steps << 20);
      v1::CollectiveTimes& times = *request.add_collective_times();
      times.set_operation("all_reduce");
      times.set_seconds(0.004 * static_cast<double>(steps));
    } else {
      request.set_bytes_pushed(steps << 20);
      request.set_bytes_pulled(steps << 20);
    }
    request.set_number(++report_number_);
    if (steps > 0) {
      AddSeries("train/loss", first, step, 2.5, request);
      AddSeries("train/learning_rate", first, step, 0.1, request);
      AddSeries("train/gradient_norm", first, step, 1.0, request);
    }
  }
  RpcCall<v1::ReportProgressRequest, v1::ReportProgressReply>::Begin(
      std::move(request), kReportTimeout,
      [&](auto... arguments) { stub_->async()->ReportProgress(arguments...); },
      [self = shared_from_this(), round, step](const absl::Status& status,
                                               v1::ReportProgressReply& reply) {
        self->Reported(round, step, status, reply);
      });
}

void SimulatedTask::Reported(uint64_t round, uint64_t step, const absl::Status& status,
                             const v1::ReportProgressReply& reply) {
  absl::Duration delay =
      std::max(kLeastReportInterval, absl::Milliseconds(reply.report_interval_ms()));
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    if (status.ok()) {
      backoff_.Reset();
      told_step_ = step;
    } else if (absl::IsAborted(status) || absl::IsNotFound(status)) {
      ended_ = true;
      return;
    } else {
      // The same steps come again, with what was made since.
      if (round == round_) --report_number_;
      if (!absl::IsUnavailable(status)) fleet_.NoteError("ReportProgress", status);
      delay = backoff_.Next();
    }
  }
  if (status.ok()) {
    ++fleet_.progress_reports;
    fleet_.Note(FleetEvent::kReported, daemon_);
  }
  ReportAfter(delay);
}

}  // namespace muster
