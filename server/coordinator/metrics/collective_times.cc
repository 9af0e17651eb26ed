#include "server/coordinator/metrics/collective_times.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "proto/task_service.pb.h"

namespace muster {
namespace {

constexpr size_t kMostNameBytes = 32;

}  // namespace

void CollectiveTimes::Take(const std::string& daemon_id, const v1::ReportProgressRequest& report) {
  if (report.collective_times().empty()) return;
  std::map<std::string, Sums>& daemon = daemons_[daemon_id];
  for (const v1::CollectiveTimes& times : report.collective_times()) {
    const bool sound = times.counts_size() == static_cast<int>(kTimeBuckets) &&
                       std::isfinite(times.seconds()) && times.seconds() >= 0 &&
                       times.operation().size() <= kMostNameBytes;
    if (!sound) continue;
    if (daemon.size() == kMostOperations && daemon.count(times.operation()) == 0) continue;
    Sums& sums = daemon[times.operation()];
    for (size_t bucket = 0; bucket < kTimeBuckets; ++bucket) {
      sums.counts[bucket] += times.counts(static_cast<int>(bucket));
    }
    sums.seconds += times.seconds();
  }
}

void CollectiveTimes::AddTo(MetricFamilies& families) const {
  prometheus::MetricFamily family;
  family.name = "muster_collective_seconds";
  family.help = "Times of the tasks' collective calls.";
  family.type = prometheus::MetricType::Histogram;
  for (const auto& [daemon, operations] : daemons_) {
    for (const auto& [operation, sums] : operations) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"daemon", daemon}, {"operation", operation}};
      prometheus::ClientMetric::Histogram& histogram = metric.histogram;
      for (size_t bucket = 0; bucket < kTimeBuckets; ++bucket) {
        histogram.sample_count += sums.counts[bucket];
        histogram.bucket.push_back({.cumulative_count = histogram.sample_count,
                                    .upper_bound = bucket < std::size(kTimeBounds)
                                                       ? kTimeBounds[bucket]
                                                       : std::numeric_limits<double>::infinity()});
      }
      histogram.sample_sum = sums.seconds;
    }
  }
  families.Add(std::move(family));
}

}  // namespace muster
