#ifndef MUSTER_COMMON_JOB_VALIDATION_PIPELINE_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_PIPELINE_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks the fields of `parallelism` that say how a pipeline works, against the job's model, road
// and micro-batches; and that they are left out of a job without a pipeline. Errors are those of
// ValidateJob. REQUIRES: the axes of `parallelism` are valid, and `workers` is filled in.
absl::Status ValidatePipeline(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_PIPELINE_VALIDATOR_H_
