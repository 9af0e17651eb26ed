#ifndef MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_

#include <map>
#include <string>
#include <vector>

#include "common/metrics/metric_registry.h"
#include "proto/status.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// The coordinator's own counters, and the last samples of each daemon. Logic thread only.
class CoordinatorMetrics {
 public:
  CoordinatorMetrics();

  // Returns all in Prometheus' text format. Samples without a `daemon` label get their daemon's.
  std::string Text(const JobTable& jobs, const Membership& members) const;

  // Replaces the samples of a daemon.
  void SetSamples(const std::string& daemon_id, std::vector<v1::MetricSample> samples);
  void Forget(const std::string& daemon_id) { samples_.erase(daemon_id); }

 private:
  MetricRegistry registry_;
  std::map<std::string, std::vector<v1::MetricSample>> samples_;

 public:
  Counter& submitted;
  Counter& placed;
  Counter& respawned_slots;
  Counter& rollbacks;
  Counter& daemons_lost;
  Counter& checkpoints;
  Counter& retired;
  Counter& heartbeats;
  Counter& store_errors;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
