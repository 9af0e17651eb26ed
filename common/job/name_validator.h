#ifndef MUSTER_COMMON_JOB_NAME_VALIDATOR_H_
#define MUSTER_COMMON_JOB_NAME_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks that a job's name, owner and namespace can be shown as they are: a control character in
// them would break lists and logs into lines, or steer the terminal that shows them.
// InvalidArgument names the field, and the character and its place.
absl::Status ValidateNames(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_NAME_VALIDATOR_H_
