#ifndef MUSTER_CLIENT_COMPARE_RUN_COMPARISON_H_
#define MUSTER_CLIENT_COMPARE_RUN_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/compare/comparison.h"
#include "client/compare/roads.h"

namespace muster {

namespace v1 {
class JobSpec;
class JobStatus;
}  // namespace v1

struct ComparisonOptions {
  // On the parameter-server roads; all-reduce takes none.
  int servers = 2;
  int repeats = 3;
  int staleness_bound = 4;
  // Leaves all other roads out, without a word.
  std::optional<Road::Kind> only_road;
  // Steps at the start of each run that speeds leave out.
  uint64_t warmup_steps = 20;
  // Of the clusters.
  std::vector<std::string> worker_flags;
  // What the user is shown: called before each run, with its statuses, and after it.
  std::function<void(const Road& road, int repeat)> starting = [](const Road&, int) {};
  std::function<void(const v1::JobStatus&)> changed = [](const v1::JobStatus&) {};
  std::function<void()> ended = [] {};
};

// Trains the job on every road it can take, each time on a cluster of its own on this machine, one
// after another. Errors are those of MeasureRun.
absl::StatusOr<Comparison> RunComparison(const v1::JobSpec& job, const ComparisonOptions& options);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_RUN_COMPARISON_H_
