#include "common/metrics/metric_family_proto.h"

#include <prometheus/check_names.h>
#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

v1::MetricFamily::Type TypeOf(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return v1::MetricFamily::COUNTER;
    case MetricType::Gauge:
      return v1::MetricFamily::GAUGE;
    case MetricType::Histogram:
      return v1::MetricFamily::HISTOGRAM;
    default:
      return v1::MetricFamily::TYPE_UNSPECIFIED;
  }
}

// Sets a histogram's counts by bucket, and the family's bounds.
void SetCounts(const ClientMetric::Histogram& histogram, v1::MetricFamily& family,
               v1::Metric& metric) {
  family.clear_bounds();
  uint64_t below = 0;
  for (const ClientMetric::Bucket& bucket : histogram.bucket) {
    metric.add_counts(bucket.cumulative_count - below);
    below = bucket.cumulative_count;
    if (std::isfinite(bucket.upper_bound)) family.add_bounds(bucket.upper_bound);
  }
  if (metric.counts_size() == family.bounds_size()) {
    metric.add_counts(histogram.sample_count - below);
  }
  metric.set_sum(histogram.sample_sum);
}

absl::Status TakeCounts(const v1::MetricFamily& family, const v1::Metric& message,
                        ClientMetric::Histogram& histogram) {
  if (message.counts_size() != family.bounds_size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        family.name(), " has a metric of ", message.counts_size(), " buckets, where its ",
        family.bounds_size(), " bounds make ", family.bounds_size() + 1));
  }
  for (int i = 0; i < message.counts_size(); ++i) {
    const bool last = i == family.bounds_size();
    histogram.sample_count += message.counts(i);
    histogram.bucket.push_back(
        {.cumulative_count = histogram.sample_count,
         .upper_bound = last ? std::numeric_limits<double>::infinity() : family.bounds(i)});
  }
  histogram.sample_sum = message.sum();
  return absl::OkStatus();
}

}  // namespace

void ToProto(const MetricFamily& family, v1::MetricFamily& message) {
  message.set_name(family.name);
  message.set_help(family.help);
  message.set_type(TypeOf(family.type));
  for (const ClientMetric& metric : family.metric) {
    v1::Metric& added = *message.add_metrics();
    for (const ClientMetric::Label& each : metric.label) {
      v1::MetricLabel& label = *added.add_labels();
      label.set_name(each.name);
      label.set_value(each.value);
    }
    if (family.type == MetricType::Histogram) {
      SetCounts(metric.histogram, message, added);
    } else {
      added.set_value(family.type == MetricType::Counter ? metric.counter.value
                                                         : metric.gauge.value);
    }
  }
}

absl::StatusOr<MetricFamily> FromProto(const v1::MetricFamily& message) {
  if (!absl::StartsWith(message.name(), "muster_") ||
      !prometheus::CheckMetricName(message.name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a metric's name is ", LengthOf(message.name()),
                     "; expected muster_ with letters, digits and underscores after it"));
  }
  MetricFamily family;
  family.name = message.name();
  family.help = message.help();
  switch (message.type()) {
    case v1::MetricFamily::COUNTER:
      family.type = MetricType::Counter;
      break;
    case v1::MetricFamily::GAUGE:
      family.type = MetricType::Gauge;
      break;
    case v1::MetricFamily::HISTOGRAM:
      family.type = MetricType::Histogram;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("the type of ", message.name(), " is ",
                                                     message.type(), ", which is unknown"));
  }
  for (int i = 0; i < message.bounds_size(); ++i) {
    const bool increases = i == 0 || message.bounds(i) > message.bounds(i - 1);
    if (!std::isfinite(message.bounds(i)) || !increases) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bounds of ", message.name(), " do not increase"));
    }
  }
  for (const v1::Metric& each : message.metrics()) {
    ClientMetric metric;
    for (const v1::MetricLabel& label : each.labels()) {
      // Prometheus would refuse the whole answer for one label that comes twice.
      const bool twice = std::any_of(
          metric.label.begin(), metric.label.end(),
          [&label](const ClientMetric::Label& other) { return other.name == label.name(); });
      if (twice || label.name() == "le" || !prometheus::CheckLabelName(label.name())) {
        return absl::InvalidArgumentError(
            absl::StrCat("a label of ", message.name(), " is ", LengthOf(label.name()),
                         ", which is no label's name, has a meaning of its own, or comes twice"));
      }
      metric.label.push_back({label.name(), label.value()});
    }
    if (family.type == MetricType::Histogram) {
      MUSTER_RETURN_IF_ERROR(TakeCounts(message, each, metric.histogram));
    } else if (family.type == MetricType::Counter) {
      metric.counter.value = each.value();
    } else {
      metric.gauge.value = each.value();
    }
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace muster
