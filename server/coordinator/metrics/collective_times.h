#ifndef MUSTER_SERVER_COORDINATOR_METRICS_COLLECTIVE_TIMES_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_COLLECTIVE_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/metrics/metric_families.h"
#include "common/metrics/time_bounds.h"

namespace muster {

namespace v1 {
class ReportProgressRequest;
}  // namespace v1

// Times of the collective calls that tasks have reported, by the tasks' daemon and by operation.
// Not thread-safe.
class CollectiveTimes {
 public:
  // Most operations of one daemon; further names are left out.
  static constexpr size_t kMostOperations = 16;

  // Adds the calls in a report of a task that runs on `daemon_id`. Leaves out what is malformed.
  void Take(const std::string& daemon_id, const v1::ReportProgressRequest& report);
  void Forget(const std::string& daemon_id) { daemons_.erase(daemon_id); }

  void AddTo(MetricFamilies& families) const;

 private:
  struct Sums {
    std::array<uint64_t, kTimeBuckets> counts = {};
    double seconds = 0;
  };

  // The sums of each daemon's operations.
  std::map<std::string, std::map<std::string, Sums>> daemons_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_COLLECTIVE_TIMES_H_
