#ifndef MUSTER_CLIENT_TERMINAL_PROGRESS_H_
#define MUSTER_CLIENT_TERMINAL_PROGRESS_H_

#include <string>

namespace muster {

namespace v1 {
class EvaluationResult;
class JobProgress;
class JobStatus;
}  // namespace v1

// Returns a line on a job's progress: state, a bar of `bar_width` characters (0: none), step, loss,
// last metric, examples/s, time left. No newline.
std::string ProgressLine(const v1::JobStatus& status, int bar_width);

// Returns the value of an evaluation's metric, or "none".
std::string MetricValue(const v1::EvaluationResult& result);

// Returns an evaluation's metric with its value, such as "accuracy 0.9312".
std::string MetricText(const v1::EvaluationResult& result);

// Returns what to do with the best checkpoint of a job that has ended, in a line without newline;
// empty if it is the last one, or there is none.
std::string BestLine(const v1::JobStatus& status);

// Returns the training loss as people read it; "-" if none was reported.
std::string LossText(const v1::JobProgress& progress);

// Returns a job's message, without the traceback that ends it if there is one.
std::string MessageBeforeTraceback(const v1::JobStatus& status);
// Returns a failed program's last lines, indented, each with a line break; empty if there are none.
std::string TracebackText(const v1::JobStatus& status);

// Returns the name of a job's state for users, such as "RUNNING".
std::string StateName(const v1::JobStatus& status);

// Returns true if the job is SUCCEEDED, FAILED or CANCELLED.
bool HasEnded(const v1::JobStatus& status);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_PROGRESS_H_
