#ifndef MUSTER_COMMON_OPTIM_ADAGRAD_H_
#define MUSTER_COMMON_OPTIM_ADAGRAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// `adagrad` and `row_wise_adagrad`. optimizer.h has the formulas and the errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdagrad(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRowWiseAdagrad(const v1::OptimizerSpec& spec,
                                                                      Granularity granularity);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_ADAGRAD_H_
