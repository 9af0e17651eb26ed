#include "server/coordinator/rpc_metrics.h"

#include <iterator>

#include "common/metrics/time_bounds.h"

namespace muster {

RpcMetrics::RpcMetrics(const Clock& clock)
    : clock_(clock),
      seconds_(prometheus::BuildHistogram()
                   .Name("muster_rpc_seconds")
                   .Help("Times of unary rpcs, from request to answer.")
                   .Register(registry_)),
      failed_(prometheus::BuildCounter()
                  .Name("muster_rpc_failures_total")
                  .Help("Unary rpcs that ended with an error, by gRPC's code.")
                  .Register(registry_)) {}

prometheus::Histogram& RpcMetrics::Seconds(const std::string& method) {
  return seconds_.Add({{"method", method}}, prometheus::Histogram::BucketBoundaries(
                                                std::begin(kTimeBounds), std::end(kTimeBounds)));
}

RpcMetrics::Timer::Timer(RpcMetrics& metrics, const std::string& method,
                         prometheus::Histogram& seconds)
    : metrics_(metrics), method_(method), seconds_(seconds), started_(metrics.clock_.Monotonic()) {}

void RpcMetrics::Timer::End(absl::StatusCode code) const {
  seconds_.Observe(absl::ToDoubleSeconds(metrics_.clock_.Monotonic() - started_));
  if (code == absl::StatusCode::kOk) return;
  metrics_.failed_.Add({{"method", method_}, {"code", absl::StatusCodeToString(code)}}).Increment();
}

}  // namespace muster
