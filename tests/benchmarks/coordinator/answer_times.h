#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_ANSWER_TIMES_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_ANSWER_TIMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// Times in milliseconds that calls took, from the shortest.
struct AnswerTimes {
  // GetJob of one job.
  std::vector<double> status;
  // ListJobs of 500 jobs in short.
  std::vector<double> list;
  // What the page's first view asks for each second, side by side as a browser does: the daemons,
  // all jobs that have not ended, the cards of the newest that run, and the newest of all.
  std::vector<double> page;
  // /metrics.
  std::vector<double> metrics;
};

struct AnswerTimesOptions {
  // host:port of the coordinator's rpcs and of its page.
  std::string coordinator;
  std::string page;
  // The job whose status is asked for.
  std::string job;
  absl::Duration duration;
};

// Asks for all of these for `duration`, each from a thread of its own with pauses. Errors are the
// calls'.
absl::StatusOr<AnswerTimes> MeasureAnswers(const AnswerTimesOptions& options);

// Returns the time that a share of the calls did not exceed. REQUIRES: `sorted` is not empty.
double Quantile(const std::vector<double>& sorted, double share);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_ANSWER_TIMES_H_
