#ifndef MUSTER_COMMON_JOB_VALIDATION_PROGRAM_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_PROGRAM_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks a job that runs a program, but for its names and its number of workers. INVALID_ARGUMENT
// names the field, its value and what would be right; a field that means nothing to programs is
// refused by name. REQUIRES: the job runs a program.
absl::Status ValidateProgram(const v1::JobSpec& spec);

// Writes the values that a program's fields stand for. REQUIRES: as ValidateProgram; valid.
void FillProgramDefaults(v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_PROGRAM_VALIDATOR_H_
