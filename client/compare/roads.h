#ifndef MUSTER_CLIENT_COMPARE_ROADS_H_
#define MUSTER_CLIENT_COMPARE_ROADS_H_

#include <string>
#include <vector>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// One way to train a job.
struct Road {
  enum class Kind { kBsp, kSsp, kAsp, kAllReduce };

  Kind kind = Kind::kBsp;
  // "BSP", "SSP 4", "ASP", "all-reduce".
  std::string name;
};

// Roads that a job is compared on, and those it cannot take with the reason.
struct ComparableRoads {
  std::vector<Road> roads;
  std::vector<std::string> left_out;
};

// BSP, SSP with this bound, ASP and all-reduce, but for what the job's options exclude.
ComparableRoads RoadsOf(const v1::JobSpec& job, int staleness_bound);

// The job on that road: the same in everything but how gradients become parameters.
v1::JobSpec OnRoad(const v1::JobSpec& job, const Road& road, int staleness_bound);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_ROADS_H_
