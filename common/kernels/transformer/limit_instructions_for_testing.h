#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_LIMIT_INSTRUCTIONS_FOR_TESTING_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_LIMIT_INSTRUCTIONS_FOR_TESTING_H_

#include "absl/status/status.h"

namespace muster {

// The most that kernels and oneDNN use of a processor's instructions. Each has what those before it
// have.
enum class InstructionLimit {
  kAvx2,
  kAvx512,
  // With products of bf16 by AVX-512's instructions, not by matrix units.
  kAvx512Bf16,
};

// Makes the whole process compute as on a processor that has just these instructions. Functions of
// MUSTER_SIMD_CLONES stay as they are: all their clones give the same bits. Unimplemented: this
// processor has not got them (names what is missing). FailedPrecondition: oneDNN was used before,
// or was built without such a limit.
absl::Status LimitInstructionsForTesting(InstructionLimit limit);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_LIMIT_INSTRUCTIONS_FOR_TESTING_H_
