#ifndef MUSTER_COMMON_JOB_VALIDATION_JOB_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_JOB_VALIDATOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Most threads of one task.
inline constexpr uint32_t kMaxThreads = 1024;

// Checks all of a job that can be judged without its data; fields left out stand for what
// FillDefaults writes. INVALID_ARGUMENT names the field, its value and what would be right; of
// several faults, the first in the order of the specification's fields.
absl::Status ValidateJob(const v1::JobSpec& spec);

// Writes the values that fields left out stand for, so that every reader sees the same, except for
// threads_per_worker 0, which depends on the worker. REQUIRES: valid.
void FillDefaults(v1::JobSpec& spec);

// Returns the update policy in a few words: "BSP", "SSP with bound 4", "ASP", "all-reduce", or
// "all-reduce, zero stage 3 over 4 ranks" (DivisionName); "a program" for a job that runs one.
std::string PolicyName(const v1::JobSpec& spec);

// Returns in a few words how the job's data ranks divide parameters, such as "zero stage 3 over 4
// ranks" or "zero stage 1 over groups of 2 ranks"; "zero stage 3" where servers are the shard
// group; empty if nothing is divided.
std::string ZeroName(const v1::JobSpec& spec);

// Returns in a few words how ranks divide the model: ZeroName, tensor parallelism and the pipeline,
// such as "zero stage 1 over 2 ranks, tensor 4 with sequence" or "pipeline 2 by ONE_F_ONE_B"; empty
// if nothing is divided.
std::string DivisionName(const v1::JobSpec& spec);

// Returns whether the job trains nothing, so that there is nothing to keep.
bool OnlyEvaluates(const v1::JobSpec& spec);

// Returns whether there are examples to evaluate on: a share that is held out, or validation data.
bool Evaluates(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_JOB_VALIDATOR_H_
