#ifndef MUSTER_WORKER_DATA_SAMPLING_STEPS_H_
#define MUSTER_WORKER_DATA_SAMPLING_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/step/step_batches.h"

namespace muster {

namespace v1 {
class StopSpec;
}  // namespace v1

struct TrainingSize {
  int64_t examples = 0;
  // Tokens per example; 0 if the data are not counted in tokens.
  int64_t tokens_each = 0;
};

// Returns the last clock of a job: `stop.steps`, or the first clock at which the job has seen
// `stop.epochs` epochs of the training examples or `stop.tokens` tokens. All count from the
// beginning of the first job if this one goes on from another. Epochs or tokens that were reached
// before give `first_clock`, the clock at which this job begins. 0 for a job that only evaluates.
//
// InvalidArgument: not exactly one of steps, epochs and tokens is set (unless the job only
// evaluates), epochs is negative or not finite, a batch of this job is larger than the training
// data, or the job would see 2^62 examples or more.
absl::StatusOr<int64_t> TotalSteps(const v1::StopSpec& stop, const TrainingSize& size,
                                   const StepBatches& batches, int64_t first_clock = 0);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_STEPS_H_
