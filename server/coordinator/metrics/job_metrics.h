#ifndef MUSTER_SERVER_COORDINATOR_METRICS_JOB_METRICS_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_JOB_METRICS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "common/metrics/metric_families.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Time for which jobs are shown after their end, so that their last figures are read and a failure
// can be alerted on; and how many of them at most, the last to end.
inline constexpr absl::Duration kEndedJobsShown = absl::Hours(1);
inline constexpr size_t kMostEndedJobsShown = 100;

// Adds the metrics of jobs that have not ended, and of those that ended lately. Counters begin at 0
// when the coordinator starts.
void AddJobMetrics(const JobTable& jobs, MetricFamilies& families);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_JOB_METRICS_H_
