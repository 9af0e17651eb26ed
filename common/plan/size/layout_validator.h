#ifndef MUSTER_COMMON_PLAN_SIZE_LAYOUT_VALIDATOR_H_
#define MUSTER_COMMON_PLAN_SIZE_LAYOUT_VALIDATOR_H_

#include "absl/status/status.h"
#include "common/plan/size/model_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks what of a job depends on its model's size, which ValidateJob does not know: whether
// the dense parameters can be laid out, in blocks and in buckets of gradients, and ranks can
// divide them; and whether servers can hold what the ranks have. InvalidArgument names the field,
// its value and what would be right. Costs O(tensors).
absl::Status ValidateLayout(const v1::JobSpec& spec, const ModelSize& model);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_LAYOUT_VALIDATOR_H_
