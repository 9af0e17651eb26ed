#ifndef MUSTER_COMMON_EVAL_METRIC_H_
#define MUSTER_COMMON_EVAL_METRIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Sums over evaluated examples; shares of several tasks add up.
struct EvaluationSums {
  // In nats.
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
};

// Whether a metric's greater values are the better ones: not for loss and bits_per_byte.
bool HigherIsBetter(absl::string_view metric);

// The value of a metric that follows from sums: loss (mean, in nats), accuracy (share in [0, 1]) or
// bits_per_byte (mean loss in bits; the name says what it means where an example predicts one
// byte). InvalidArgument: another metric (auc and binned_auc come from scores, see auc.h), or no
// examples.
absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums);

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_METRIC_H_
