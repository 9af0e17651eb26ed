#ifndef MUSTER_COMMON_JOB_VALIDATION_ELASTIC_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_ELASTIC_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `min_workers` and `max_workers`: refuses jobs that cannot go on with other workers than
// before. Errors are those of ValidateJob. REQUIRES: `update` has no fields of the other road, and
// `workers` is filled in.
absl::Status ValidateElastic(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_ELASTIC_VALIDATOR_H_
