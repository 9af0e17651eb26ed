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
  // Says whether roads, ZeRO stages or a pipeline's schedules are compared.
  Comparison::Of of = Comparison::Of::kRoads;
  // Servers on the parameter-server roads; all-reduce uses none.
  int servers = 2;
  int repeats = 3;
  int staleness_bound = 4;
  // If set, all other roads are left out and not reported as such.
  std::optional<Road::Kind> only_road;
  // First steps of each run, which speeds leave out.
  uint64_t warmup_steps = 20;
  // Flags of the clusters' workers.
  std::vector<std::string> worker_flags;
  // Called before each run, with each status during the run, and after the run, to show progress.
  std::function<void(const Road& road, int repeat)> starting = [](const Road&, int) {};
  std::function<void(const v1::JobStatus&)> changed = [](const v1::JobStatus&) {};
  std::function<void()> ended = [] {};
};

// Trains the job on every road that it can take, or under every ZeRO stage or schedule, one run
// after another, each on a cluster of its own on this machine. Errors are those of MeasureRun.
// InvalidArgument: schedules of a job without a pipeline are asked for.
absl::StatusOr<Comparison> RunComparison(const v1::JobSpec& job, const ComparisonOptions& options);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_RUN_COMPARISON_H_
