#include "worker/models/regression.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {

absl::StatusOr<RegressionHead> CreateRegressionHead(absl::string_view field,
                                                    const v1::RegressionSpec& spec,
                                                    const DatasetInfo& data) {
  if (!data.target.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field,
                     " predicts a number, but the data have classes; use CSV or libsvm data "
                     "whose labels are numbers"));
  }
  if (!(spec.huber_delta() >= 0) || std::isinf(spec.huber_delta())) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".huber_delta is ", spec.huber_delta(),
                                                   "; it must be above 0 (0 stands for 1)."));
  }
  RegressionLoss loss;
  if (spec.huber_delta() > 0) loss.huber_delta = spec.huber_delta();
  switch (spec.loss()) {
    case v1::RegressionSpec::LOSS_UNSPECIFIED:
    case v1::RegressionSpec::SQUARED:
      return RegressionHead(loss);
    case v1::RegressionSpec::ABSOLUTE:
      loss.kind = RegressionLoss::Kind::kAbsolute;
      return RegressionHead(loss);
    case v1::RegressionSpec::HUBER:
      loss.kind = RegressionLoss::Kind::kHuber;
      return RegressionHead(loss);
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ".loss is ", static_cast<int>(spec.loss()),
                                                 "; it must be SQUARED, ABSOLUTE or HUBER."));
}

absl::Status CheckTargets(const Batch& batch) {
  if (static_cast<int64_t>(batch.targets.size()) == batch.examples) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("A batch of ", batch.examples, " examples has ", batch.targets.size(),
                   " numbers to predict: it was not read from the data that the model was made "
                   "for."));
}

}  // namespace muster
