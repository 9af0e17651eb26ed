#ifndef MUSTER_WORKER_MODELS_LINEAR_MODEL_H_
#define MUSTER_WORKER_MODELS_LINEAR_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class LogisticRegressionSpec;
class RegressionSpec;
}  // namespace v1

// Linear models in one layer unit. Sparse features weigh rows of the table "weights", of one float
// per output; dense features, where the data have some, the tensor dense.weight; the tensor "bias"
// comes on top. All starts at 0. InvalidArgument as CreateModel says.

// Returns a classifier with one output per class, or a single one for two classes. Metric:
// accuracy; with two classes there are scores for auc too.
absl::StatusOr<std::unique_ptr<const Model>> CreateLogisticRegression(
    const v1::LogisticRegressionSpec& spec, const DatasetInfo& data);

// Returns a model of one output that predicts a number. Metric: rmse.
absl::StatusOr<std::unique_ptr<const Model>> CreateLinearRegression(const v1::RegressionSpec& spec,
                                                                    const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_LINEAR_MODEL_H_
