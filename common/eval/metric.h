#ifndef MUSTER_COMMON_EVAL_METRIC_H_
#define MUSTER_COMMON_EVAL_METRIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// What rmse, mae and r2 follow from: sums over examples with a number to predict, in the target's
// own unit.
struct RegressionSums {
  // The sum over prediction - target.
  double squared_errors = 0;
  double absolute_errors = 0;
  // Of target - m, where m is the targets' mean in training. It is the same for all tasks, and near
  // the evaluated targets: the variance of 1700000003 and 1700000005 keeps its digits.
  double deviations = 0;
  double squared_deviations = 0;
};

// Sums over evaluated examples. Sums of several tasks add up, so metrics do not depend on how an
// evaluation is divided.
struct EvaluationSums {
  // In nats.
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
  // Number of predictions: one per example, or many if an example is a sequence.
  uint64_t labels = 0;
  // Bytes of text of the labels; equal to `labels` if each label is one byte.
  double text_bytes = 0;
  // Of models that predict a number.
  RegressionSums regression;
};

// Returns true if greater values of a metric are better; false for loss, perplexity, bits_per_byte,
// rmse and mae.
bool HigherIsBetter(absl::string_view metric);

// Returns whether a metric follows from EvaluationSums::regression: rmse, mae and r2.
bool IsOfRegression(absl::string_view metric);

// Returns the value of a metric that follows from sums:
//
//   loss           mean over the labels; in nats unless the model predicts a number
//   perplexity     the exponential of the loss
//   accuracy       share of the labels, in [0, 1]
//   bits_per_byte  loss in bits over the bytes of text
//   rmse           root of the mean squared error, in the target's unit
//   mae            mean absolute error, in the target's unit
//   r2             1 - squared errors / squared deviations of the evaluated targets from their own
//                  mean: 1 is perfect, 0 as good as that mean, and less is worse
//
// InvalidArgument: another metric (auc and binned_auc are computed from scores, see auc.h).
// FailedPrecondition: there are no labels; for bits_per_byte no bytes; for r2, all targets are
// equal.
absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums);

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_METRIC_H_
