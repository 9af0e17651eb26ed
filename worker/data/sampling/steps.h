#ifndef MUSTER_WORKER_DATA_SAMPLING_STEPS_H_
#define MUSTER_WORKER_DATA_SAMPLING_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/sampling/data_position.h"

namespace muster {

namespace v1 {
class StopSpec;
}  // namespace v1

struct TrainingSize {
  int64_t examples = 0;
  // Tokens of each; 0: the data are not counted in tokens.
  int64_t tokens_each = 0;
};

// The last clock of a job: `stop.steps`, or the one by which it has seen `stop.epochs` passes over
// the training examples, or `stop.tokens`, the last step begun counted whole. All count from the
// beginning of the first job where this one goes on from another; `begin.clock` if that was passed
// before. A job that only evaluates has 0.
//
// InvalidArgument: not exactly one of steps, epochs and tokens is set (unless the job only
// evaluates), epochs is negative or not finite, the batch is empty or larger than the training
// data, or the number of examples seen would pass 2^62.
absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, const TrainingSize& size,
                                   int64_t batch_size, const DataPosition& begin = {});

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_STEPS_H_
