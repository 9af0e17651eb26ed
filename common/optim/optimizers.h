#ifndef MUSTER_COMMON_OPTIM_OPTIMIZERS_H_
#define MUSTER_COMMON_OPTIM_OPTIMIZERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/optim/optimizer.h"

namespace muster {

// Returns the optimizer itself, or one whose state has the type that the specification asks for.
absl::StatusOr<std::unique_ptr<const Optimizer>> WithStateType(
    const v1::OptimizerSpec& spec, std::unique_ptr<const Optimizer> optimizer,
    Granularity granularity);

// Returns the optimizer itself, or one that also keeps the average that the specification asks for.
absl::StatusOr<std::unique_ptr<const Optimizer>> WithAverage(
    const v1::OptimizerSpec& spec, std::unique_ptr<const Optimizer> optimizer,
    Granularity granularity);

// The optimizers that CreateOptimizer chooses from. optimizer.h has the formulas and the errors.
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateSgd(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateMomentum(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateNesterov(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdagrad(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRowWiseAdagrad(const v1::OptimizerSpec& spec,
                                                                      Granularity granularity);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRmsprop(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdam(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdamW(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateLion(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateMuon(const v1::OptimizerSpec& spec);
absl::StatusOr<std::unique_ptr<const Optimizer>> CreateFtrl(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZERS_H_
