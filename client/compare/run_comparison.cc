#include "client/compare/run_comparison.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/compare/process_usage.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Steps of a pipeline from which its speed is predicted.
constexpr uint32_t kTracedSteps = 20;

ComparableRoads WaysOf(const v1::JobSpec& job, const ComparisonOptions& options) {
  switch (options.of) {
    case Comparison::Of::kStages:
      return StagesOf(job);
    case Comparison::Of::kSchedules:
      return SchedulesOf(job);
    case Comparison::Of::kRoads:
      break;
  }
  return RoadsOf(job, options.staleness_bound);
}

}  // namespace

absl::StatusOr<Comparison> RunComparison(const v1::JobSpec& job, const ComparisonOptions& options) {
  if (options.repeats < 1 || options.servers < 1 || options.staleness_bound < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a comparison needs at least 1 repeat, 1 server and a staleness bound of 1; given were "
        "repeats: ",
        options.repeats, ", servers: ", options.servers, ", staleness: ", options.staleness_bound));
  }
  if (options.of == Comparison::Of::kSchedules && job.parallelism().pipeline() <= 1) {
    return absl::InvalidArgumentError(
        "parallelism.pipeline is 1, so the job has no schedules to compare; set the number of "
        "stages, as in --set parallelism.pipeline=2 --set workers=2 --set micro_batches=8");
  }
  Comparison comparison;
  comparison.of = options.of;
  comparison.job = job.name();
  comparison.workers = static_cast<int>(std::max(1u, job.workers()));
  comparison.servers = options.servers;
  comparison.processors = AvailableProcessors();
  comparison.batch_size = static_cast<int>(job.batch_size());
  ComparableRoads roads = WaysOf(job, options);
  if (options.only_road.has_value()) {
    MUSTER_RETURN_IF_ERROR(KeepOnly(*options.only_road, roads));
  }
  if (roads.roads.empty()) return absl::InvalidArgumentError(absl::StrJoin(roads.left_out, "; "));
  comparison.left_out = roads.left_out;
  const uint32_t traced_steps = options.of == Comparison::Of::kSchedules ? kTracedSteps : 0;
  for (const Road& road : roads.roads) comparison.roads.push_back({.road = road.name, .runs = {}});
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (int index : OrderOfRoads(static_cast<int>(roads.roads.size()), repeat)) {
      const Road& road = roads.roads[index];
      options.starting(road, repeat);
      absl::StatusOr<MeasuredRun> run = MeasureRun(OnRoad(job, road, options.staleness_bound), road,
                                                   {.servers = options.servers,
                                                    .warmup_steps = options.warmup_steps,
                                                    .traced_steps = traced_steps,
                                                    .worker_flags = options.worker_flags,
                                                    .changed = options.changed});
      options.ended();
      MUSTER_RETURN_IF_ERROR(run.status());
      run->repeat = repeat;
      comparison.roads[index].runs.push_back(*std::move(run));
    }
  }
  return comparison;
}

}  // namespace muster
