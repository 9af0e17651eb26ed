#ifndef MUSTER_WORKER_MODELS_REGRESSION_H_
#define MUSTER_WORKER_MODELS_REGRESSION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/nn/layers/heads.h"

namespace muster {

namespace v1 {
class RegressionSpec;
}  // namespace v1

// What models that predict a number have in common. They predict it normalised, as Batch::targets
// are, and their losses are of normalised errors; whoever reports a prediction or an error to
// people restores the unit (DatasetInfo::target), as the evaluator does.

// Returns the end of a model that is specified at `field`, such as "model.mlp.regression".
// InvalidArgument: a field is out of its range, or the data have no numbers to predict.
absl::StatusOr<RegressionHead> CreateRegressionHead(absl::string_view field,
                                                    const v1::RegressionSpec& spec,
                                                    const DatasetInfo& data);

// Checks a batch's targets: one per example. InvalidArgument names both numbers.
absl::Status CheckTargets(const Batch& batch);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_REGRESSION_H_
