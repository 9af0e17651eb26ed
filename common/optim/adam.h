#ifndef MUSTER_COMMON_OPTIM_ADAM_H_
#define MUSTER_COMMON_OPTIM_ADAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// `adam`, with weight decay as part of the gradient, and `adamw`, with weight decay apart from it.
// optimizer.h has the formulas and the errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdam(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdamW(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_ADAM_H_
