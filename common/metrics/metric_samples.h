#ifndef MUSTER_COMMON_METRICS_METRIC_SAMPLES_H_
#define MUSTER_COMMON_METRICS_METRIC_SAMPLES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "common/metrics/metric_registry.h"

namespace muster {

namespace v1 {
class MetricSample;
}  // namespace v1

// Returns a registry's current values in wire form. `labels` (may be empty) is put before the
// labels of each, to tell daemons apart: `daemon="s0"`.
std::vector<v1::MetricSample> MetricSamples(const MetricRegistry& registry,
                                            absl::string_view labels);

}  // namespace muster

#endif  // MUSTER_COMMON_METRICS_METRIC_SAMPLES_H_
