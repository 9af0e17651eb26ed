#ifndef MUSTER_SERVER_COORDINATOR_RPC_METRICS_H_
#define MUSTER_SERVER_COORDINATOR_RPC_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster {

// Times of the coordinator's unary rpcs, from the request's arrival to its answer, and numbers of
// those that failed. Calls that wait for others (Heartbeat, Rendezvous, ReportEvaluation, …) take
// as long as they wait. Thread-safe.
class RpcMetrics {
 public:
  // `clock` outlives the metrics.
  explicit RpcMetrics(const Clock& clock);

  // One rpc's time so far.
  class Timer {
   public:
    Timer(RpcMetrics& metrics, const std::string& method, prometheus::Histogram& seconds);
    // Counts the rpc with this end. Call once.
    void End(absl::StatusCode code) const;

   private:
    RpcMetrics& metrics_;
    const std::string& method_;
    prometheus::Histogram& seconds_;
    const absl::Duration started_;
  };

  // Returns the histogram of a method, such as "JobService/GetJob".
  prometheus::Histogram& Seconds(const std::string& method);

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  const Clock& clock_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& seconds_;
  prometheus::Family<prometheus::Counter>& failed_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_RPC_METRICS_H_
