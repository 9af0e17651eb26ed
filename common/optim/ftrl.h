#ifndef MUSTER_COMMON_OPTIM_FTRL_H_
#define MUSTER_COMMON_OPTIM_FTRL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// `ftrl`: follow the proximally regularised leader, per coordinate. optimizer.h has the formula and
// the errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateFtrl(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_FTRL_H_
