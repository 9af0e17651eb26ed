#ifndef MUSTER_COMMON_JOB_VALIDATION_ATTENTION_VALIDATOR_H_
#define MUSTER_COMMON_JOB_VALIDATION_ATTENTION_VALIDATOR_H_

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class TransformerSpec;
}  // namespace v1

// Checks what model.transformer says of attention: heads, norms of queries and keys, rotary angles
// and the window. InvalidArgument names the field, its value and what would be right.
absl::Status ValidateAttention(const v1::TransformerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_ATTENTION_VALIDATOR_H_
