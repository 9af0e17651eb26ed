#ifndef MUSTER_COMMON_EVAL_REGRESSION_SUMS_H_
#define MUSTER_COMMON_EVAL_REGRESSION_SUMS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// What rmse, mae and r2 follow from: sums over examples with a number to predict, in the target's
// own unit. Sums of several tasks add up, so the metrics do not depend on how an evaluation is
// divided.
struct RegressionSums {
  // The sum over prediction - target.
  double squared_errors = 0;
  double absolute_errors = 0;
  // Of target - m, where m is the targets' mean in training. It is the same for all tasks, and near
  // the evaluated targets: the variance of 1700000003 and 1700000005 keeps its digits.
  double deviations = 0;
  double squared_deviations = 0;

  RegressionSums& operator+=(const RegressionSums& other);
};

// Returns the sums as bytes: four f64, little-endian, in the order above.
std::string PackSums(const RegressionSums& sums);

// Returns the sums of PackSums' bytes; zeros of no bytes, which a task without examples sends.
// InvalidArgument: another number of bytes, or a sum that is not finite or cannot be.
absl::StatusOr<RegressionSums> UnpackSums(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_REGRESSION_SUMS_H_
