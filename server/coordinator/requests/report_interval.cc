#include "server/coordinator/requests/report_interval.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

constexpr absl::Duration kBetweenReportsOfAll = absl::Milliseconds(1);
constexpr absl::Duration kLeast = absl::Milliseconds(250);
// A trace counts on every task to report within this time and half as long again
// (trace_requests.cc).
constexpr absl::Duration kMost = absl::Seconds(1);

}  // namespace

absl::Duration ReportInterval(size_t tasks) {
  return std::clamp(kBetweenReportsOfAll * static_cast<double>(tasks), kLeast, kMost);
}

absl::Duration TableReportInterval::Get() {
  if (std::exchange(version_, jobs_.version()) == jobs_.version()) return interval_;
  size_t tasks = 0;
  for (const auto& [number, job] : jobs_.jobs()) {
    if (!IsActive(job->record.state())) continue;
    tasks += std::count_if(
        job->record.slots().begin(), job->record.slots().end(),
        [](const v1::SlotRecord& slot) { return !slot.done() && !slot.worker_id().empty(); });
  }
  return interval_ = ReportInterval(tasks);
}

}  // namespace muster
