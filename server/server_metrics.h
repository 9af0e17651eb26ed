#ifndef MUSTER_SERVER_SERVER_METRICS_H_
#define MUSTER_SERVER_SERVER_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace muster {

namespace v1 {
class GetServerStatsReply;
class HeartbeatRequest;
}  // namespace v1

// Adds a server's metrics to its heartbeat, which has its replays already: those of `stats`, and
// `others`. What belongs to a job is labelled `job_id`.
void AddServerMetrics(const v1::GetServerStatsReply& stats,
                      std::vector<prometheus::MetricFamily> others,
                      v1::HeartbeatRequest& heartbeat);

}  // namespace muster

#endif  // MUSTER_SERVER_SERVER_METRICS_H_
