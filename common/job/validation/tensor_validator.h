#ifndef MUSTER_COMMON_JOB_VALIDATION_TENSOR_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_TENSOR_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `parallelism.tensor` and `parallelism.sequence` against the job's model, road and workers.
// A vocabulary that comes from the data is checked with it (common/plan/size/layout_validator.h).
// Errors are those of ValidateJob. REQUIRES: model, update and the rest of `parallelism` are valid,
// and `workers` is filled in.
absl::Status ValidateTensor(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_TENSOR_VALIDATOR_H_
