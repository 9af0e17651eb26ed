#ifndef MUSTER_COMMON_OPTIM_RMSPROP_H_
#define MUSTER_COMMON_OPTIM_RMSPROP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// `rmsprop`. optimizer.h has the formula and the errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRmsprop(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_RMSPROP_H_
