#ifndef MUSTER_CLIENT_TERMINAL_PROGRESS_H_
#define MUSTER_CLIENT_TERMINAL_PROGRESS_H_

#include <string>

namespace muster {

namespace v1 {
class EvaluationResult;
class JobStatus;
}  // namespace v1

// One line on where a job stands: state, a bar `bar_width` wide (0: none), step, loss, last metric,
// examples/s, time left. No newline.
std::string ProgressLine(const v1::JobStatus& status, int bar_width);

// The value of an evaluation's metric; "none" where it has none.
std::string MetricValue(const v1::EvaluationResult& result);

// The name of a job state as users read it ("RUNNING").
std::string StateName(const v1::JobStatus& status);

// SUCCEEDED, FAILED or CANCELLED.
bool HasEnded(const v1::JobStatus& status);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_PROGRESS_H_
