#ifndef MUSTER_COMMON_JOB_VALIDATION_CONTEXT_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_CONTEXT_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `parallelism.context` and `parallelism.context_exchange` against the job's model, road and
// workers. Errors are those of ValidateJob. REQUIRES: model, update and the rest of `parallelism`
// are valid, and `workers` is filled in.
absl::Status ValidateContext(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_CONTEXT_VALIDATOR_H_
