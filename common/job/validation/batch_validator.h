#ifndef MUSTER_COMMON_JOB_VALIDATION_BATCH_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_BATCH_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `batch_size`, `batch_changes`, `adaptive_batch`, `scale_batch` and `micro_batches`: every
// batch has an example for each micro-batch of each data rank. Errors are those of ValidateJob.
// REQUIRES: `parallelism`, `schedule` and `update` are valid, and `workers` is filled in.
absl::Status ValidateBatches(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_BATCH_VALIDATOR_H_
