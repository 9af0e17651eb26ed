#ifndef MUSTER_COMMON_OPTIM_SCHEDULE_H_
#define MUSTER_COMMON_OPTIM_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class ScheduleSpec;
}  // namespace v1

// InvalidArgument names the field, the value and what would be right.
absl::Status ValidateSchedule(const v1::ScheduleSpec& spec);

// The learning rate of the step at `clock` (from 0) of a job of `total_steps`. REQUIRES: a valid specification.
float LearningRate(const v1::ScheduleSpec& spec, float base, uint64_t clock, uint64_t total_steps);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_SCHEDULE_H_
