#ifndef MUSTER_COMMON_JOB_VALIDATION_VERIFY_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_VERIFY_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks that steps of the job can be made again on other data ranks, and compared before they
// change anything (JobSpec.verify_every). InvalidArgument names the field, its value and what would
// be right.
absl::Status ValidateVerification(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_VERIFY_VALIDATOR_H_
