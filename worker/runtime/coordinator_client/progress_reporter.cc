#include "worker/runtime/coordinator_client/progress_reporter.h"

#include <algorithm>
#include <utility>

#include "common/history/series_proto.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "proto/trace.pb.h"
#include "worker/runtime/coordinator_client/process_usage.h"

namespace muster {
namespace {

constexpr int kLastAttempts = 3;
// Names of ProgressReporter's series.
constexpr const char* kSeriesNames[] = {
    "train/loss",           "train/learning_rate", "train/gradient_norm",  "train/loss_scale",
    "train/auxiliary_loss", "train/z_loss",        "train/router_entropy", "train/noise_scale"};

std::vector<uint64_t> Sum(std::vector<uint64_t> earlier, const std::vector<uint64_t>& later) {
  earlier.resize(std::max(earlier.size(), later.size()));
  for (size_t i = 0; i < later.size(); ++i) earlier[i] += later[i];
  return earlier;
}

// Returns the sum of `earlier` and `later`.
StepReport Combine(const StepReport& earlier, const StepReport& later) {
  StepReport sum;
  sum.clock = std::max(earlier.clock, later.clock);
  sum.loss_sum = earlier.loss_sum + later.loss_sum;
  sum.loss_weight = earlier.loss_weight + later.loss_weight;
  sum.examples = earlier.examples + later.examples;
  sum.dropped_examples = earlier.dropped_examples + later.dropped_examples;
  sum.steps = earlier.steps + later.steps;
  sum.bytes_pushed = earlier.bytes_pushed + later.bytes_pushed;
  sum.bytes_pulled = earlier.bytes_pulled + later.bytes_pulled;
  sum.bytes_sent = earlier.bytes_sent + later.bytes_sent;
  sum.bytes_received = earlier.bytes_received + later.bytes_received;
  sum.other_bytes_sent = earlier.other_bytes_sent + later.other_bytes_sent;
  sum.other_bytes_received = earlier.other_bytes_received + later.other_bytes_received;
  sum.staleness_sum = earlier.staleness_sum + later.staleness_sum;
  sum.staleness_max = std::max(earlier.staleness_max, later.staleness_max);
  sum.training_seconds = earlier.training_seconds + later.training_seconds;
  sum.compute_seconds = earlier.compute_seconds + later.compute_seconds;
  sum.exposed_communication_seconds =
      earlier.exposed_communication_seconds + later.exposed_communication_seconds;
  sum.waiting_seconds = earlier.waiting_seconds + later.waiting_seconds;
  sum.redone_seconds = earlier.redone_seconds + later.redone_seconds;
  sum.redone_steps = earlier.redone_steps + later.redone_steps;
  sum.evaluation_seconds = earlier.evaluation_seconds + later.evaluation_seconds;
  sum.checkpoint_seconds = earlier.checkpoint_seconds + later.checkpoint_seconds;
  sum.tokens = earlier.tokens + later.tokens;
  sum.expert_loads = Sum(earlier.expert_loads, later.expert_loads);
  return sum;
}

// Returns the divisor of a step's loss.
double WeightOf(const StepReport& step) {
  return static_cast<double>(step.loss_weight > 0 ? step.loss_weight : step.examples);
}

v1::ReportProgressRequest ToRequest(uint64_t clock, const StepReport& report) {
  v1::ReportProgressRequest request;
  request.set_clock(clock);
  request.set_loss_sum(report.loss_sum);
  request.set_loss_weight(report.loss_weight);
  request.set_examples(report.examples);
  request.set_dropped_examples(report.dropped_examples);
  request.set_steps(report.steps);
  request.set_bytes_pushed(report.bytes_pushed);
  request.set_bytes_pulled(report.bytes_pulled);
  request.set_staleness_sum(report.staleness_sum);
  request.set_staleness_max(report.staleness_max);
  request.set_training_seconds(report.training_seconds);
  request.set_compute_seconds(report.compute_seconds);
  request.set_exposed_communication_seconds(report.exposed_communication_seconds);
  request.set_waiting_seconds(report.waiting_seconds);
  request.set_redone_seconds(report.redone_seconds);
  request.set_redone_steps(report.redone_steps);
  request.set_evaluation_seconds(report.evaluation_seconds);
  request.set_checkpoint_seconds(report.checkpoint_seconds);
  request.set_bytes_sent(report.bytes_sent);
  request.set_bytes_received(report.bytes_received);
  request.set_other_bytes_sent(report.other_bytes_sent);
  request.set_other_bytes_received(report.other_bytes_received);
  const ProcessUsage usage = ReadProcessUsage();
  request.set_process_cpu_seconds(usage.cpu_seconds);
  request.set_process_peak_bytes(usage.peak_bytes);
  request.set_process_mapped_bytes(usage.mapped_bytes);
  request.set_tokens(report.tokens);
  return request;
}

// Adds the loads of the blocks that have some.
void AddLoads(absl::Span<const uint64_t> loads, const ProgressReporterOptions& options,
              v1::ReportProgressRequest& request) {
  const auto experts = static_cast<size_t>(options.experts);
  const size_t numbers = experts + (options.drops_choices ? 1 : 0);
  for (size_t first = 0; first < loads.size(); first += numbers) {
    const absl::Span<const uint64_t> block = loads.subspan(first, experts);
    if (std::all_of(block.begin(), block.end(), [](uint64_t tokens) { return tokens == 0; })) {
      continue;
    }
    v1::ExpertLoads& added = *request.mutable_expert_loads();
    added.set_experts(static_cast<uint32_t>(experts));
    added.add_blocks(static_cast<uint32_t>(first / numbers));
    added.mutable_tokens()->Add(block.begin(), block.end());
    if (options.drops_choices) added.add_dropped(loads[first + experts]);
  }
}

}  // namespace

v1::ReportProgressRequest ProgressReporter::ToRequest(uint64_t clock, const Pending& report) const {
  v1::ReportProgressRequest request = muster::ToRequest(clock, report.sums);
  AddLoads(report.sums.expert_loads, options_, request);
  for (size_t i = 0; i < report.series.size(); ++i) {
    const absl::Span<const SeriesPoint> points = report.series[i].points();
    if (points.empty()) continue;
    v1::ReportedSeries& series = *request.add_series();
    series.set_name(kSeriesNames[i]);
    uint64_t values = 0;
    for (const SeriesPoint& point : points) {
      ToProto(point, *series.add_points());
      values += point.values;
    }
    if (i == 0) series.set_weight(report.loss_weight / static_cast<double>(values));
  }
  return request;
}

ProgressReporter::ProgressReporter(CoordinatorClient& coordinator, ProgressReporterOptions options)
    : coordinator_(coordinator),
      options_(std::move(options)),
      reports_(coordinator),
      interval_(options_.interval),
      thread_([this] { Run(); }) {}

ProgressReporter::~ProgressReporter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ProgressReporter::Add(const StepReport& step) {
  const Boundaries boundaries{.every = options_.checkpoint_every};
  absl::MutexLock lock(&mutex_);
  pending_.sums = Combine(pending_.sums, step);
  if (step.steps > 0) last_ = step;
  const auto add = [&](size_t series, absl::optional<double> value) {
    return value.has_value() &&
           pending_.series[series].Add(OneValue(step.clock, *value), boundaries);
  };
  if (step.steps > 0 && WeightOf(step) > 0 && add(0, step.loss_sum / WeightOf(step))) {
    pending_.loss_weight += WeightOf(step);
  }
  add(1, step.learning_rate);
  add(2, step.gradient_norm);
  add(3, step.loss_scale);
  add(4, step.auxiliary_loss);
  add(5, step.z_loss);
  add(6, step.router_entropy);
  add(7, step.noise_scale);
  clock_ = std::max(clock_, step.clock);
}

absl::Status ProgressReporter::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Duration ProgressReporter::interval() const {
  absl::MutexLock lock(&mutex_);
  return interval_;
}

uint64_t ProgressReporter::meet_after_round() const {
  absl::MutexLock lock(&mutex_);
  return meet_after_round_;
}

uint64_t ProgressReporter::end_after_clock() const {
  absl::MutexLock lock(&mutex_);
  return end_after_clock_;
}

void ProgressReporter::Flush() { Send(Empty::kSend); }

void ProgressReporter::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  {
    absl::MutexLock lock(&mutex_);
    if (last_.steps == 0) return;
    pending_.sums.loss_sum = last_.loss_sum;
    pending_.sums.loss_weight = last_.loss_weight > 0 ? last_.loss_weight : last_.examples;
  }
  for (int attempt = 0; attempt < kLastAttempts; ++attempt) {
    if (Send(Empty::kSend)) return;
  }
}

void ProgressReporter::Run() {
  absl::Duration idle;
  while (true) {
    const absl::Duration interval = this->interval();
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), interval)) return;
    }
    idle += interval;
    // The next chance comes an interval later.
    const bool polls = idle + interval > options_.poll;
    if (Send(polls ? Empty::kSend : Empty::kKeep)) idle = absl::ZeroDuration();
  }
}

bool ProgressReporter::Send(Empty empty) {
  absl::MutexLock sending(&sending_);
  if (!status().ok()) return false;
  const bool again = !reports_.empty();
  if (again && !SendReports()) return false;
  return MakeReport(empty) ? SendReports() : again;
}

bool ProgressReporter::MakeReport(Empty empty) {
  Pending report;
  uint64_t clock = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (pending_.sums.steps == 0 && empty == Empty::kKeep) return false;
    report = std::exchange(pending_, Pending());
    std::vector<uint64_t>& loads = report.sums.expert_loads;
    if (!stopping_ && ++reports_without_loads_ * kLoadsOfReport < loads.size()) {
      pending_.sums.expert_loads = std::exchange(loads, {});
    } else if (!loads.empty()) {
      reports_without_loads_ = 0;
    }
    clock = clock_;
  }
  v1::ReportProgressRequest request = ToRequest(clock, report);
  request.set_round(options_.round);
  if (options_.add_calls != nullptr) {
    options_.add_calls(request);
    std::vector<v1::CollectiveTimes> times(request.collective_times().begin(),
                                           request.collective_times().end());
    LeaveNewTimes(request);
    reported_times_ = std::move(times);
  }
  reports_.Add(std::move(request));
  return true;
}

bool ProgressReporter::SendReports() {
  const absl::Status sent =
      reports_.Send([this](const v1::ReportProgressReply& reply) { Answer(reply); });
  TakeStatus(sent);
  return sent.ok();
}

void ProgressReporter::LeaveNewTimes(v1::ReportProgressRequest& request) const {
  for (v1::CollectiveTimes& times : *request.mutable_collective_times()) {
    for (const v1::CollectiveTimes& reported : reported_times_) {
      if (reported.operation() != times.operation()) continue;
      for (int bucket = 0; bucket < reported.counts_size(); ++bucket) {
        times.set_counts(bucket, times.counts(bucket) - reported.counts(bucket));
      }
      times.set_seconds(times.seconds() - reported.seconds());
    }
  }
}

void ProgressReporter::Answer(const v1::ReportProgressReply& reply) {
  bool ends = false;
  {
    absl::MutexLock lock(&mutex_);
    meet_after_round_ = std::max(meet_after_round_, reply.meet_after_round());
    interval_ = std::max(options_.interval, absl::Milliseconds(reply.report_interval_ms()));
    // The last word counts: a loss brings the end forward.
    if (reply.end_after_clock() > 0) end_after_clock_ = reply.end_after_clock();
    ends = end_after_clock_ > 0 && clock_ >= end_after_clock_;
  }
  if (ends && options_.end_at_once != nullptr) options_.end_at_once();
  if (options_.meet_after != nullptr && reply.meet_after_round() > 0) {
    options_.meet_after(reply.meet_after_round());
  }
  if (options_.round_lost != nullptr && reply.lost_round() > 0) {
    options_.round_lost(reply.lost_round());
  }
  if (options_.traced != nullptr) options_.traced(reply.trace());
  if (!reply.collectives_wanted() || options_.collectives == nullptr) return;
  v1::ReportCollectivesRequest request;
  options_.collectives(request);
  TakeStatus(coordinator_.ReportCollectives(std::move(request)));
}

void ProgressReporter::TakeStatus(const absl::Status& status) {
  if (!TaskMustEnd(status)) return;
  absl::MutexLock lock(&mutex_);
  status_ = status;
}

}  // namespace muster
