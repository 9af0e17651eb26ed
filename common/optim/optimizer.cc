#include "common/optim/optimizer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/optim/optimizers.h"
#include "common/text/did_you_mean.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateNamed(const v1::OptimizerSpec& spec,
                                                             Granularity granularity) {
  const std::string& name = spec.name();
  if (name == "sgd") return CreateSgd(spec);
  if (name == "momentum") return CreateMomentum(spec);
  if (name == "nesterov") return CreateNesterov(spec);
  if (name == "adagrad") return CreateAdagrad(spec);
  if (name == "row_wise_adagrad") return CreateRowWiseAdagrad(spec, granularity);
  if (name == "rmsprop") return CreateRmsprop(spec);
  if (name == "adam") return CreateAdam(spec);
  if (name == "adamw") return CreateAdamW(spec);
  if (name == "lion") return CreateLion(spec);
  if (name == "muon") return CreateMuon(spec);
  if (name == "ftrl") return CreateFtrl(spec);
  const std::vector<std::string> names = {
      "sgd",   "momentum", "nesterov", "adagrad", "row_wise_adagrad", "rmsprop", "adam",
      "adamw", "lion",     "muon",     "ftrl"};
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.name is \"", name, "\": it must be one of ",
                   absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateOptimizer(const v1::OptimizerSpec& spec,
                                                                 Granularity granularity) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> optimizer,
                          CreateNamed(spec, granularity));
  MUSTER_ASSIGN_OR_RETURN(optimizer, WithStateType(spec, std::move(optimizer), granularity));
  return WithAverage(spec, std::move(optimizer), granularity);
}

}  // namespace muster
