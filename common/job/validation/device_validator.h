#ifndef MUSTER_COMMON_JOB_VALIDATION_DEVICE_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_DEVICE_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks that a job may compute where `compute.device` says: refuses what the device's engine does
// not do, before anything is placed. InvalidArgument names the field, its value and what would be
// right.
absl::Status ValidateDevice(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_DEVICE_VALIDATOR_H_
