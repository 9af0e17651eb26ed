#ifndef MUSTER_COMMON_JOB_VALIDATION_BACKUP_WORKERS_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_BACKUP_WORKERS_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks `update.backup_workers`: refuses jobs in which every example must count, and those whose
// steps need all workers. Errors are those of ValidateJob. REQUIRES: `parallelism` and `update` are
// valid, and `workers` is filled in.
absl::Status ValidateBackupWorkers(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_BACKUP_WORKERS_VALIDATOR_H_
