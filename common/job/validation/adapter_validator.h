#ifndef MUSTER_COMMON_JOB_VALIDATION_ADAPTER_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_ADAPTER_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks adapters and parameter groups: their numbers, the layers that have adapters, and what they
// may be combined with. The names of groups are checked where the model's tensors are known
// (SetParameterGroups). InvalidArgument names the field, its value and what would be right.
absl::Status ValidateParameterGroups(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_ADAPTER_VALIDATOR_H_
