#ifndef MUSTER_COMMON_OPTIM_SGD_H_
#define MUSTER_COMMON_OPTIM_SGD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// Stochastic gradient descent: `sgd`, `momentum`, `nesterov`. optimizer.h has the formulas and the
// errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateSgd(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateMomentum(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateNesterov(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_SGD_H_
