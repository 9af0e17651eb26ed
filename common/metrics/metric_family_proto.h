#ifndef MUSTER_COMMON_METRICS_METRIC_FAMILY_PROTO_H_
#define MUSTER_COMMON_METRICS_METRIC_FAMILY_PROTO_H_

#include <prometheus/metric_family.h>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class MetricFamily;
}  // namespace v1

// Fills in `message` with a family of counters, gauges or histograms.
void ToProto(const prometheus::MetricFamily& family, v1::MetricFamily& message);

// Returns the family of a message from elsewhere. InvalidArgument: a name is none of Muster's
// metrics' or of a label, a type is unknown, or a histogram's bounds do not increase or do not go
// with its counts.
absl::StatusOr<prometheus::MetricFamily> FromProto(const v1::MetricFamily& message);

}  // namespace muster

#endif  // MUSTER_COMMON_METRICS_METRIC_FAMILY_PROTO_H_
