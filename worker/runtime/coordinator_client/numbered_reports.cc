#include "worker/runtime/coordinator_client/numbered_reports.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/task_service.pb.h"

namespace muster {

bool TaskMustEnd(const absl::Status& answer) {
  return absl::IsAborted(answer) || absl::IsNotFound(answer);
}

void NumberedReports::Add(v1::ReportProgressRequest report) {
  report.set_number(++last_number_);
  unanswered_.push_back(std::make_shared<v1::ReportProgressRequest>(std::move(report)));
}

absl::Status NumberedReports::Send(absl::FunctionRef<void(const v1::ReportProgressReply&)> take) {
  while (!unanswered_.empty()) {
    const auto reply = coordinator_.ReportProgress(*unanswered_.front());
    if (!reply.ok()) return reply.status();
    unanswered_.pop_front();
    take(*reply);
  }
  return absl::OkStatus();
}

}  // namespace muster
