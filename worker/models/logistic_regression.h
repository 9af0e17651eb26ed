#ifndef MUSTER_WORKER_MODELS_LOGISTIC_REGRESSION_H_
#define MUSTER_WORKER_MODELS_LOGISTIC_REGRESSION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class LogisticRegressionSpec;
}  // namespace v1

// Linear classifier in one layer unit. Sparse features weigh rows of the table "weights", of one
// float (two classes, one logit) or one per class; dense features, where the data have some, the
// tensor dense.weight; the tensor "bias" comes on top. All starts at 0. Metric: accuracy; with two
// classes there are scores for auc too. InvalidArgument as CreateModel says.
absl::StatusOr<std::unique_ptr<const Model>> CreateLogisticRegression(
    const v1::LogisticRegressionSpec& spec, const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_LOGISTIC_REGRESSION_H_
