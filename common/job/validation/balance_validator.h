#ifndef MUSTER_COMMON_JOB_VALIDATION_BALANCE_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_BALANCE_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks shares of data ranks that are not equal: JobSpec.balance and JobSpec.share_changes.
// InvalidArgument names the field, its value and what would be right.
absl::Status ValidateBalance(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_BALANCE_VALIDATOR_H_
