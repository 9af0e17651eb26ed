#ifndef MUSTER_COMMON_EVAL_METRIC_H_
#define MUSTER_COMMON_EVAL_METRIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Sums over evaluated examples. Sums of several tasks add up.
struct EvaluationSums {
  // In nats.
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
  // Number of predictions: one per example, or many if an example is a sequence.
  uint64_t labels = 0;
  // Bytes of text of the labels; equal to `labels` if each label is one byte.
  double text_bytes = 0;
};

// Returns true if greater values of a metric are better; false for loss, perplexity and
// bits_per_byte.
bool HigherIsBetter(absl::string_view metric);

// Returns the value of a metric that follows from sums: loss (mean over the labels, in nats),
// perplexity (its exponential), accuracy (share of the labels, in [0, 1]) or bits_per_byte (loss in
// bits over the bytes of text). InvalidArgument: another metric (auc and binned_auc are computed
// from scores, see auc.h). FailedPrecondition: there are no labels, or for bits_per_byte no bytes.
absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums);

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_METRIC_H_
