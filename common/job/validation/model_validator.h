#ifndef MUSTER_COMMON_JOB_VALIDATION_MODEL_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_MODEL_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks model, data, and evaluation metric, each by itself and against one another, as far as
// possible without reading the data. INVALID_ARGUMENT as in ValidateJob.
absl::Status ValidateModelAndData(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_MODEL_VALIDATOR_H_
