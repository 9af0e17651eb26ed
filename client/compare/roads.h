#ifndef MUSTER_CLIENT_COMPARE_ROADS_H_
#define MUSTER_CLIENT_COMPARE_ROADS_H_

#include <string>
#include <vector>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A way to train a job.
struct Road {
  enum class Kind { kBsp, kSsp, kAsp, kAllReduce };

  Kind kind = Kind::kBsp;
  // Such as "BSP", "SSP 4", "ASP", "all-reduce" or "all-reduce, zero stage 3 over 2 ranks".
  std::string name;
};

// Roads to compare a job on, and the reason for each road that is left out.
struct ComparableRoads {
  std::vector<Road> roads;
  std::vector<std::string> left_out;
};

// Returns BSP, SSP with this bound, ASP and all-reduce, except for roads that the job's options
// exclude.
ComparableRoads RoadsOf(const v1::JobSpec& job, int staleness_bound);

// Returns the job for that road, changed only in how gradients become parameters.
v1::JobSpec OnRoad(const v1::JobSpec& job, const Road& road, int staleness_bound);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_ROADS_H_
