#include "client/compare/run_comparison.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/compare/process_usage.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {

absl::StatusOr<Comparison> RunComparison(const v1::JobSpec& job, const ComparisonOptions& options) {
  if (options.repeats < 1 || options.servers < 1 || options.staleness_bound < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a comparison needs at least 1 repeat, 1 server and a staleness bound of 1; given were "
        "repeats: ",
        options.repeats, ", servers: ", options.servers, ", staleness: ", options.staleness_bound));
  }
  Comparison comparison;
  comparison.of = options.of;
  comparison.job = job.name();
  comparison.workers = static_cast<int>(std::max(1u, job.workers()));
  comparison.servers = options.servers;
  comparison.processors = AvailableProcessors();
  comparison.batch_size = static_cast<int>(job.batch_size());
  ComparableRoads roads =
      options.of == Comparison::Of::kStages ? StagesOf(job) : RoadsOf(job, options.staleness_bound);
  if (options.only_road.has_value()) {
    const auto is_other = [&](const Road& road) { return road.kind != *options.only_road; };
    roads.roads.erase(std::remove_if(roads.roads.begin(), roads.roads.end(), is_other),
                      roads.roads.end());
    roads.left_out.clear();
  }
  comparison.left_out = roads.left_out;
  for (const Road& road : roads.roads) comparison.roads.push_back({.road = road.name, .runs = {}});
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (int index : OrderOfRoads(static_cast<int>(roads.roads.size()), repeat)) {
      const Road& road = roads.roads[index];
      options.starting(road, repeat);
      absl::StatusOr<MeasuredRun> run = MeasureRun(OnRoad(job, road, options.staleness_bound), road,
                                                   {.servers = options.servers,
                                                    .warmup_steps = options.warmup_steps,
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
