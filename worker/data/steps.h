#ifndef MUSTER_WORKER_DATA_STEPS_H_
#define MUSTER_WORKER_DATA_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class StopSpec;
}  // namespace v1

// Steps of a job: `stop.steps`, or `stop.epochs` passes over the training examples, the last step
// begun counted whole. A job that only evaluates has 0.
//
// InvalidArgument: not exactly one of steps and epochs is set (unless the job only evaluates),
// epochs is negative or not finite, the batch is empty or larger than the training data, or the
// number of examples seen would pass 2^62.
absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, int64_t training_examples,
                                   int64_t batch_size);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_STEPS_H_
