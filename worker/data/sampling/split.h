#ifndef MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_
#define MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster {

// How a dataset's examples are shared between training and evaluation: the first `training` of them
// train, the `held_out` ones after them do not.
struct Split {
  int64_t training = 0;
  int64_t held_out = 0;
};

// Holds out the last `holdout` (DataSpec.holdout) of `examples`, rounded to the nearest example. 0
// trains on all, 1 keeps all for evaluation. InvalidArgument: `holdout` lies outside [0, 1], or
// lies inside and yet leaves no example on one of the two sides.
absl::StatusOr<Split> SplitExamples(int64_t examples, double holdout);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_SPLIT_H_
