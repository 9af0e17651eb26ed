#include "common/metrics/metric_samples.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status.pb.h"

namespace muster {

std::vector<v1::MetricSample> MetricSamples(const MetricRegistry& registry,
                                            absl::string_view labels) {
  std::vector<v1::MetricSample> samples;
  for (const MetricPoint& point : registry.Read()) {
    v1::MetricSample& sample = samples.emplace_back();
    sample.set_name(point.name);
    sample.set_labels(
        absl::StrCat(labels, labels.empty() || point.labels.empty() ? "" : ",", point.labels));
    sample.set_value(point.value);
  }
  return samples;
}

}  // namespace muster
