#ifndef MUSTER_COMMON_JOB_VALIDATION_SERVED_RANKS_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_SERVED_RANKS_VALIDATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks what servers must do for a job whose model `ranks` workers compute together, as `field`
// says: hand out one version of the parameters, and take pushes as f32. OK for jobs by all-reduce.
// Errors are those of ValidateJob.
absl::Status ValidateServedRanks(const v1::JobSpec& spec, absl::string_view field, uint32_t ranks);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_SERVED_RANKS_VALIDATOR_H_
