#include "worker/runtime/progress_reporter.h"

#include <algorithm>
#include <utility>

#include "proto/task_service.pb.h"

namespace muster {
namespace {

constexpr int kLastAttempts = 3;

// `later` on top of `earlier`.
StepReport Combine(const StepReport& earlier, const StepReport& later) {
  StepReport sum;
  sum.clock = std::max(earlier.clock, later.clock);
  sum.loss_sum = earlier.loss_sum + later.loss_sum;
  sum.examples = earlier.examples + later.examples;
  sum.steps = earlier.steps + later.steps;
  sum.bytes_pushed = earlier.bytes_pushed + later.bytes_pushed;
  sum.bytes_pulled = earlier.bytes_pulled + later.bytes_pulled;
  sum.staleness_sum = earlier.staleness_sum + later.staleness_sum;
  sum.staleness_max = std::max(earlier.staleness_max, later.staleness_max);
  sum.training_seconds = earlier.training_seconds + later.training_seconds;
  return sum;
}

v1::ReportProgressRequest ToRequest(const StepReport& report) {
  v1::ReportProgressRequest request;
  request.set_clock(report.clock);
  request.set_loss_sum(report.loss_sum);
  request.set_examples(report.examples);
  request.set_steps(report.steps);
  request.set_bytes_pushed(report.bytes_pushed);
  request.set_bytes_pulled(report.bytes_pulled);
  request.set_staleness_sum(report.staleness_sum);
  request.set_staleness_max(report.staleness_max);
  request.set_training_seconds(report.training_seconds);
  return request;
}

}  // namespace

ProgressReporter::ProgressReporter(CoordinatorClient& coordinator, absl::Duration interval)
    : coordinator_(coordinator), interval_(interval), thread_([this] { Run(); }) {}

ProgressReporter::~ProgressReporter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ProgressReporter::Add(const StepReport& step) {
  absl::MutexLock lock(&mutex_);
  pending_ = Combine(pending_, step);
}

absl::Status ProgressReporter::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void ProgressReporter::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  for (int attempt = 0; attempt < kLastAttempts; ++attempt) {
    if (Send()) return;
  }
}

void ProgressReporter::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), interval_)) return;
    }
    Send();
  }
}

bool ProgressReporter::Send() {
  StepReport report;
  {
    absl::MutexLock lock(&mutex_);
    if (pending_.steps == 0 || !status_.ok()) return false;
    report = std::exchange(pending_, StepReport());
  }
  const absl::Status sent = coordinator_.ReportProgress(ToRequest(report));
  if (sent.ok()) return true;
  absl::MutexLock lock(&mutex_);
  pending_ = Combine(report, pending_);
  if (absl::IsAborted(sent) || absl::IsNotFound(sent)) status_ = sent;
  return false;
}

}  // namespace muster
