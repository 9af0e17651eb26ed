#ifndef MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_
#define MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster {

// A division of examples: the first `training` are trained on, the `held_out` after them are not.
struct Split {
  int64_t training = 0;
  int64_t held_out = 0;
};

// Holds out the last share `holdout` (DataSpec.holdout) of `examples`, rounded to the nearest
// example. 0 trains on all examples, 1 evaluates all. InvalidArgument: `holdout` lies outside [0,
// 1], or lies between 0 and 1 and leaves no example to train on or to evaluate.
absl::StatusOr<Split> SplitExamples(int64_t examples, double holdout);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_
