#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_NUMBERED_REPORTS_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_NUMBERED_REPORTS_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// Returns whether a call of the coordinator has said that the task must end.
bool TaskMustEnd(const absl::Status& answer);

// A task's reports of progress on their way to the coordinator, which takes each once and in order:
// they are numbered from 1, and one without an answer is sent again, unchanged, before any later
// one, since the coordinator may have taken it. Thread-compatible.
class NumberedReports {
 public:
  // `coordinator` outlives the reports.
  explicit NumberedReports(CoordinatorClient& coordinator) : coordinator_(coordinator) {}

  // Returns whether all reports have an answer.
  bool empty() const { return unanswered_.empty(); }

  // Numbers the report, to be sent after those before it.
  void Add(v1::ReportProgressRequest report);

  // Sends reports until all have an answer, which `take` is given, or one attempt fails. Returns
  // that attempt's error.
  absl::Status Send(absl::FunctionRef<void(const v1::ReportProgressReply&)> take);

 private:
  CoordinatorClient& coordinator_;
  std::deque<std::shared_ptr<const v1::ReportProgressRequest>> unanswered_;
  uint64_t last_number_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_NUMBERED_REPORTS_H_
