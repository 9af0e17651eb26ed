#ifndef MUSTER_COMMON_JOB_VALIDATION_EXPERT_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_EXPERT_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
class TransformerSpec;
}  // namespace v1

// Checks what model.transformer.moe says; OK without it. InvalidArgument names the field, its value
// and what would be right.
absl::Status ValidateExperts(const v1::TransformerSpec& spec);

// Checks how a job with experts is updated. REQUIRES: ValidateExperts holds.
absl::Status ValidateExpertUpdates(const v1::JobSpec& spec);

// Checks parallelism.expert. REQUIRES: ValidateExperts holds, and the mesh is one (Mesh::FromSpec).
absl::Status ValidateExpertRanks(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_EXPERT_VALIDATOR_H_
