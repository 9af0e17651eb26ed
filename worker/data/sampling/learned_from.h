#ifndef MUSTER_WORKER_DATA_SAMPLING_LEARNED_FROM_H_
#define MUSTER_WORKER_DATA_SAMPLING_LEARNED_FROM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace muster {

// Returns for each example, in the data's order, whether a preparation of the data is learned from
// it: it is when the example trains; if all are held out, all are learned from. `shuffle_seed` is
// the seed of the order whose end is held out; unset: the data's order. Errors of SplitExamples.
absl::StatusOr<std::vector<bool>> LearnedFrom(int64_t examples, double holdout,
                                              absl::optional<uint64_t> shuffle_seed);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_LEARNED_FROM_H_
