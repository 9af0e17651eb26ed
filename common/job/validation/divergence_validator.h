#ifndef MUSTER_COMMON_JOB_VALIDATION_DIVERGENCE_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_DIVERGENCE_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks what the job asks for when its loss is not finite or jumps (JobSpec.divergence).
// InvalidArgument names the field, its value and what would be right.
absl::Status ValidateDivergence(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_DIVERGENCE_VALIDATOR_H_
