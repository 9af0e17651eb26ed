#ifndef MUSTER_CLIENT_COMPARE_ROADS_H_
#define MUSTER_CLIENT_COMPARE_ROADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/step/stage_shape.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A way to train a job: a road, a ZeRO stage of the all-reduce road, or a pipeline's schedule on
// the job's own road.
struct Road {
  enum class Kind { kBsp, kSsp, kAsp, kAllReduce };

  Kind kind = Kind::kBsp;
  // The name to show, such as "BSP", "SSP 4", "ASP", "all-reduce", "all-reduce, zero stage 3 over 2
  // ranks", "stage 1" or "GPIPE".
  std::string name;
  // The ZeRO stage; if absent, the job's own.
  std::optional<uint32_t> zero_stage = std::nullopt;
  // The pipeline's schedule; if absent, the job's own.
  std::optional<StageOrder> order = std::nullopt;
  // True: one worker computes what all stages do, with the threads of all of them.
  bool without_pipeline = false;
};

// Roads to compare a job on, and the reason for each road that is left out.
struct ComparableRoads {
  std::vector<Road> roads;
  std::vector<std::string> left_out;
};

// Returns BSP, SSP with this bound, ASP and all-reduce, except for roads that the job's options
// exclude.
ComparableRoads RoadsOf(const v1::JobSpec& job, int staleness_bound);

// Returns all-reduce under ZeRO stages 0 to 3, except for stages that the job's options exclude.
ComparableRoads StagesOf(const v1::JobSpec& job);

// Returns the job without its pipeline, and the job under every schedule, on its own road, except
// for schedules that the job's options exclude. LAYER_WISE has one micro-batch. REQUIRES:
// parallelism.pipeline is at least 2.
ComparableRoads SchedulesOf(const v1::JobSpec& job);

// Leaves out all roads of other kinds, without reporting them. InvalidArgument: no road is left;
// says why.
absl::Status KeepOnly(Road::Kind kind, ComparableRoads& roads);

// Returns the job for that road. Of roads and ZeRO stages only the way from gradients to parameters
// changes, and of schedules only the order of passes. When ZeRO stages are compared, the job always
// has all its workers.
v1::JobSpec OnRoad(const v1::JobSpec& job, const Road& road, int staleness_bound);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_ROADS_H_
