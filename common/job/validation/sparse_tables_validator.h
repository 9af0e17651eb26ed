#ifndef MUSTER_COMMON_JOB_VALIDATION_SPARSE_TABLES_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_SPARSE_TABLES_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks a job's sparse_tables: each option, and that the job has rows on servers, which alone keep
// to them. INVALID_ARGUMENT as in ValidateJob.
absl::Status ValidateSparseTables(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_SPARSE_TABLES_VALIDATOR_H_
