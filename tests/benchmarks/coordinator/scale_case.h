#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_SCALE_CASE_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_SCALE_CASE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// One size of cluster to measure.
struct ScaleOptions {
  // At least 2. There is one server for ten of them, and as many slots as workers.
  int workers = 10;
  // Processes that simulate the daemons.
  int processes = 4;
  // How often tasks meet, in each way.
  int meetings = 3;
  // Time over which processor time and answers are measured.
  absl::Duration window = absl::Seconds(5);
  absl::Duration answers_window = absl::Seconds(15);
  // Folder for the coordinator's data; empty.
  std::string folder;

  int servers() const { return workers / 10 > 0 ? workers / 10 : 1; }
  // Jobs that run side by side, and those that wait for them.
  int running_jobs() const { return workers / 10 > 0 ? workers / 10 : 1; }
  int queued_jobs() const { return workers / 2; }
  int slots_per_job() const { return workers / running_jobs(); }
};

struct ScaleFigure {
  // The part of the run, and what was measured in it, such as "gang" and "all slots have met".
  std::string part;
  std::string metric;
  std::string unit;
  std::vector<double> samples;
  // What a cluster of 1,000 workers is to stay below, in `unit`.
  std::optional<double> target;
};

// Runs a coordinator and a simulated cluster of this size through all parts, and returns their
// figures in order. Errors are those of the calls; INTERNAL: a job did not survive what it should.
absl::StatusOr<std::vector<ScaleFigure>> MeasureScale(const ScaleOptions& options);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_SCALE_CASE_H_
