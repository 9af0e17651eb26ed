#ifndef MUSTER_TESTS_RECOVERY_SMALL_TRANSFORMER_JOB_H_
#define MUSTER_TESTS_RECOVERY_SMALL_TRANSFORMER_JOB_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace muster {

// Returns an endless job (tests/harness/endless_job.h) that trains a language model of four units
// on two workers, the last unit's head tied to the first one, in steps of two micro-batches. Each
// `kTransformerCheckpointSteps` it cuts a checkpoint.
inline constexpr uint64_t kTransformerCheckpointSteps = 15;
v1::JobSpec SmallTransformerJob(v1::UpdateSpec::Road road);

}  // namespace muster

#endif  // MUSTER_TESTS_RECOVERY_SMALL_TRANSFORMER_JOB_H_
