#ifndef MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics/metric_families.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/metrics/collective_times.h"
#include "server/coordinator/metrics/gathered_metrics.h"

namespace muster {

namespace v1 {
class HeartbeatRequest;
}  // namespace v1

// The coordinator's own counters, the last metrics of each daemon, and the text that Prometheus
// reads.
//
// The number of metrics is bounded: labels are a daemon's or a job's id, or have values from short
// fixed lists. Of jobs there are all that have not ended (at most max_unfinished_jobs), and some
// that have (job_metrics.h). Names and owners label muster_job_info alone. A heartbeat's metrics
// are bounded by request_limits.h, and are forgotten with the daemon's lease. Logic thread only,
// except that the sources may be called while other threads update what they show.
class CoordinatorMetrics {
 public:
  explicit CoordinatorMetrics(std::vector<MetricSource> sources);

  // Returns all metrics. The coordinator's own have "coordinator" as the label `daemon`.
  GatheredMetrics Gather(const JobTable& jobs, const Membership& members) const;

  // Replaces the metrics of a daemon.
  void Take(const v1::HeartbeatRequest& heartbeat);
  // Takes the collective calls that tasks report.
  CollectiveTimes& collectives() { return collectives_; }
  void Forget(const std::string& daemon_id);

 private:
  prometheus::Registry registry_;
  const std::vector<MetricSource> sources_;
  std::map<std::string, std::shared_ptr<const std::vector<prometheus::MetricFamily>>> daemons_;
  CollectiveTimes collectives_;

 public:
  prometheus::Counter& submitted;
  prometheus::Counter& placed;
  prometheus::Counter& respawned_slots;
  prometheus::Counter& rollbacks;
  prometheus::Counter& daemons_lost;
  prometheus::Counter& checkpoints;
  prometheus::Counter& retired;
  prometheus::Counter& heartbeats;
  prometheus::Counter& store_errors;
  // Families that daemons sent and that Prometheus could not read.
  prometheus::Counter& refused_families;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
