#ifndef MUSTER_WORKER_DATA_STEPS_H_
#define MUSTER_WORKER_DATA_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/data_position.h"

namespace muster {

namespace v1 {
class StopSpec;
}  // namespace v1

// The last clock of a job: `stop.steps`, or the one by which it has seen `stop.epochs` passes over
// the training examples, the last step begun counted whole. Both count from the beginning of the
// first job where this one goes on from another; `begin.clock` if that was passed before. A job
// that only evaluates has 0.
//
// InvalidArgument: not exactly one of steps and epochs is set (unless the job only evaluates),
// epochs is negative or not finite, the batch is empty or larger than the training data, or the
// number of examples seen would pass 2^62.
absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, int64_t training_examples,
                                   int64_t batch_size, const DataPosition& begin = {});

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_STEPS_H_
