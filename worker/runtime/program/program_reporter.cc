#include "worker/runtime/program/program_reporter.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/series_proto.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/metrics.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(250);
// A report is sent this often even if the program says nothing.
constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr int kLastAttempts = 3;
constexpr size_t kMostPoints = 64;
// A request has at most 64 KiB.
constexpr size_t kSeriesOfRequest = 8;
// Figures of evaluations that wait for the coordinator; more are dropped, the oldest first.
constexpr size_t kMostEvaluations = 1024;
// Of these, so many are sent in an interval, so that progress need not wait long.
constexpr size_t kEvaluationsOfInterval = 16;
constexpr size_t kMostMetricNameBytes = 122;
constexpr size_t kMostNameShown = 100;
constexpr char kLoss[] = "loss";

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMostMetricNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' || c == '.' ||
                  c == '/';
         });
}

}  // namespace

ProgramReporter::ProgramReporter(CoordinatorClient& coordinator, const Clock& clock,
                                 uint64_t first_step, std::function<void(absl::string_view)> warn)
    : coordinator_(coordinator),
      clock_(clock),
      warn_(std::move(warn)),
      reports_(coordinator),
      step_(first_step),
      stepped_at_(clock.Monotonic()),
      thread_([this] { Run(); }) {}

ProgramReporter::~ProgramReporter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ProgramReporter::Add(const ProgramReport& report) {
  std::vector<std::string> warnings;
  {
    absl::MutexLock lock(&mutex_);
    AddLocked(report);
    warnings = std::exchange(warnings_, {});
  }
  for (const std::string& warning : warnings) warn_(warning);
}

void ProgramReporter::Warn(LeftOut what, std::string warning) {
  if (warned_.insert(what).second) warnings_.push_back(std::move(warning));
}

bool ProgramReporter::Takes(absl::string_view metric, std::string name) {
  if (!IsName(metric)) {
    Warn(LeftOut::kName,
         absl::StrCat("the metric \"", PrintableLine(CutUtf8(metric, kMostNameShown)),
                      "\" is left out, and others like it: a name has 1 to ", kMostMetricNameBytes,
                      " small letters, digits, _, . and /"));
    return false;
  }
  if (metric == kLoss || names_.contains(name)) return true;
  if (names_.size() >= kMostNames) {
    Warn(LeftOut::kNumber,
         absl::StrCat("the metric ", metric, " is left out, and others: the process has reported ",
                      kMostNames, " different metrics beside losses, and more are not kept"));
    return false;
  }
  names_.insert(std::move(name));
  return true;
}

void ProgramReporter::AddLocked(const ProgramReport& report) {
  if (report.step < step_) {
    Warn(LeftOut::kStep,
         absl::StrCat("the report of step ", report.step, " is left out, and others like it: this ",
                      "process has reported, or goes on from, step ", step_, "; steps only grow"));
    return;
  }
  const absl::Duration now = clock_.Monotonic();
  if (report.step > step_) {
    pending_.steps += report.step - step_;
    pending_.time += now - stepped_at_;
    step_ = report.step;
    stepped_at_ = now;
  }
  pending_.examples += report.examples;
  for (const auto& [name, value] : report.metrics) {
    // The coordinator keeps series of training and of evaluations apart.
    if (!Takes(name, absl::StrCat("train/", name))) continue;
    if (name == kLoss) {
      pending_.loss_sum += value;
      ++pending_.losses;
    }
    if (!std::isfinite(value)) continue;
    pending_.series.try_emplace(name, kMostPoints)
        .first->second.Add(OneValue(report.step, value), Boundaries());
  }
  AddEvaluation(report);
}

void ProgramReporter::SetUsage(double cpu_seconds, uint64_t peak_bytes) {
  absl::MutexLock lock(&mutex_);
  cpu_seconds_ = cpu_seconds;
  peak_bytes_ = peak_bytes;
}

void ProgramReporter::TellSilence(std::string text) {
  absl::MutexLock lock(&mutex_);
  silence_ = std::move(text);
}

void ProgramReporter::SendSilence() {
  v1::ReportProgressRequest request;
  {
    absl::MutexLock lock(&mutex_);
    if (!silence_.has_value()) return;
    request.set_waits_for(*std::exchange(silence_, absl::nullopt));
  }
  // Nothing depends on it.
  Take(coordinator_.ReportProgress(std::move(request)).status());
}

absl::Status ProgramReporter::AwaitCollectivesWanted(const std::stop_token& stop) {
  // Has the condition looked at again.
  const std::stop_callback wakes(stop, [this] { absl::MutexLock lock(&mutex_); });
  absl::MutexLock lock(&mutex_);
  const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return collectives_wanted_ || stop.stop_requested();
  };
  mutex_.Await(absl::Condition(&is_over));
  if (!collectives_wanted_) return absl::CancelledError("the task of this program ends");
  collectives_wanted_ = false;
  return absl::OkStatus();
}

void ProgramReporter::TellCollectives(v1::ReportCollectivesRequest calls) {
  absl::MutexLock lock(&mutex_);
  collectives_ = std::move(calls);
}

bool ProgramReporter::SendCollectives() {
  v1::ReportCollectivesRequest request;
  {
    absl::MutexLock lock(&mutex_);
    if (!collectives_.has_value()) return true;
    request = *std::exchange(collectives_, absl::nullopt);
  }
  const absl::Status answer = coordinator_.ReportCollectives(request);
  if (Take(answer) || !absl::IsUnavailable(answer)) return true;
  absl::MutexLock lock(&mutex_);
  // Newer ones may have come meanwhile.
  if (!collectives_.has_value()) collectives_ = std::move(request);
  return false;
}

absl::Duration ProgramReporter::SilentFor() const {
  absl::MutexLock lock(&mutex_);
  return clock_.Monotonic() - stepped_at_;
}

absl::Status ProgramReporter::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void ProgramReporter::Run() {
  // Time since the last report; the first is sent at once.
  for (absl::Duration since = kPoll;; since += kInterval) {
    bool is_due = since >= kPoll;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kInterval);
      if (stopping_ || !status_.ok()) return;
      const bool any = pending_.steps > 0 || pending_.losses > 0 || !pending_.series.empty();
      is_due |= any && since >= report_interval_;
    }
    if (is_due) {
      SendProgress();
      since = absl::ZeroDuration();
    }
    SendEvaluations(kEvaluationsOfInterval);
    SendSilence();
    SendCollectives();
  }
}

bool ProgramReporter::SendProgress() {
  if (!SendReports()) return false;
  MakeReports();
  return SendReports();
}

bool ProgramReporter::SendReports() {
  return Take(reports_.Send([this](const v1::ReportProgressReply& reply) {
    absl::MutexLock lock(&mutex_);
    collectives_wanted_ = reply.collectives_wanted();
    report_interval_ = absl::Milliseconds(reply.report_interval_ms());
  }));
}

void ProgramReporter::MakeReports() {
  Pending pending;
  v1::ReportProgressRequest request;
  {
    absl::MutexLock lock(&mutex_);
    pending = std::exchange(pending_, {});
    request.set_clock(step_);
    request.set_process_cpu_seconds(cpu_seconds_);
    request.set_process_peak_bytes(peak_bytes_);
  }
  request.set_steps(pending.steps);
  request.set_examples(pending.examples);
  request.set_loss_sum(pending.loss_sum);
  request.set_loss_weight(pending.losses);
  const double seconds = absl::ToDoubleSeconds(pending.time);
  request.set_training_seconds(seconds);
  // Only the program knows how much of the time it waits for others.
  request.set_compute_seconds(seconds);
  const uint64_t clock = request.clock();
  auto series = pending.series.begin();
  do {
    for (size_t count = 0; series != pending.series.end() && count < kSeriesOfRequest; ++count) {
      v1::ReportedSeries& reported = *request.add_series();
      reported.set_name(absl::StrCat("train/", series->first));
      if (series->first == kLoss) reported.set_weight(1);
      for (const SeriesPoint& point : series->second.points()) {
        ToProto(point, *reported.add_points());
      }
      ++series;
    }
    reports_.Add(std::move(request));
    request = v1::ReportProgressRequest();
    request.set_clock(clock);
  } while (series != pending.series.end());
}

void ProgramReporter::AddEvaluation(const ProgramReport& report) {
  absl::optional<double> loss;
  if (const auto found = report.evaluation.find(kLoss); found != report.evaluation.end()) {
    loss = found->second;
  }
  for (const auto& [name, value] : report.evaluation) {
    if (name == kLoss && report.evaluation.size() > 1) continue;
    if (!Takes(name, absl::StrCat("held_out/", name))) continue;
    v1::ReportEvaluationRequest request;
    request.set_clock(report.step);
    request.set_metric(name);
    request.set_value(value);
    if (loss.has_value()) {
      request.set_loss_sum(*loss);
      request.set_loss_weight(1);
    }
    evaluations_.push_back(std::move(request));
  }
  while (evaluations_.size() > kMostEvaluations) evaluations_.pop_front();
}

bool ProgramReporter::SendEvaluations(size_t most) {
  for (size_t sent = 0; sent < most; ++sent) {
    v1::ReportEvaluationRequest request;
    {
      absl::MutexLock lock(&mutex_);
      if (evaluations_.empty()) return true;
      request = std::move(evaluations_.front());
      evaluations_.pop_front();
    }
    const absl::Status answer = coordinator_.ReportEvaluation(request).status();
    if (Take(answer)) continue;
    if (!status().ok()) return false;
    if (!absl::IsUnavailable(answer) && !absl::IsDeadlineExceeded(answer)) continue;
    absl::MutexLock lock(&mutex_);
    evaluations_.push_front(std::move(request));
    return false;
  }
  return true;
}

bool ProgramReporter::Take(const absl::Status& status) {
  if (status.ok()) return true;
  absl::MutexLock lock(&mutex_);
  if (TaskMustEnd(status)) status_ = status;
  return false;
}

void ProgramReporter::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  for (int attempt = 0; attempt < kLastAttempts; ++attempt) {
    if (!status().ok()) return;
    if (SendCollectives() && SendProgress() && SendEvaluations(kMostEvaluations)) return;
  }
}

}  // namespace muster
