#ifndef MUSTER_COMMON_JOB_VALIDATION_ZERO_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_ZERO_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `parallelism.zero` against the job's road, device and workers. Errors are those of
// ValidateJob. REQUIRES: the rest of `parallelism` is valid, and `workers` is filled in.
absl::Status ValidateZero(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_ZERO_VALIDATOR_H_
