#ifndef MUSTER_COMMON_METRICS_METRIC_FAMILIES_H_
#define MUSTER_COMMON_METRICS_METRIC_FAMILIES_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// Labels of one metric, in the order in which they are shown. Values may be any text: only the
// serializer escapes them.
using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// Returns the present metrics of one part of a program.
using MetricSource = std::function<std::vector<prometheus::MetricFamily>()>;

// Metrics for one answer to Prometheus, or for one heartbeat, gathered by family. Names follow
// Prometheus' conventions: base units as suffixes (_seconds, _bytes), counters end in _total. Not
// thread-safe.
class MetricFamilies {
 public:
  // Add one metric. REQUIRES: a name is used for one type only.
  void AddCounter(absl::string_view name, absl::string_view help, MetricLabels labels,
                  double value);
  void AddGauge(absl::string_view name, absl::string_view help, MetricLabels labels, double value);

  // Adds all metrics of a family, each with `labels` before its own; of its own labels those that
  // `labels` has, too, are left out. Adds nothing if a family of this name has another type, or
  // the family is neither of counters, gauges nor histograms: Prometheus would refuse the answer.
  void Add(prometheus::MetricFamily family, const MetricLabels& labels = {});
  void Add(std::vector<prometheus::MetricFamily> families, const MetricLabels& labels = {});

  // Families by name.
  const std::map<std::string, prometheus::MetricFamily, std::less<>>& families() const {
    return families_;
  }

  // Returns Prometheus' text format, version 0.0.4, in order of names.
  std::string Text() &&;

 private:
  prometheus::MetricFamily& Family(absl::string_view name, absl::string_view help,
                                   prometheus::MetricType type);

  std::map<std::string, prometheus::MetricFamily, std::less<>> families_;
};

// Adds muster_build_info: 1, with the program's release, commit and kind of build.
void AddBuildInfo(absl::string_view program, MetricFamilies& families);

}  // namespace muster

#endif  // MUSTER_COMMON_METRICS_METRIC_FAMILIES_H_
