#ifndef MUSTER_WORKER_MODELS_MLP_H_
#define MUSTER_WORKER_MODELS_MLP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class MlpSpec;
}  // namespace v1

// Multi-layer perceptron on dense features: linear layers with ReLU between them; one layer unit
// per linear layer. Tensors hidden0.weight, hidden0.bias, …, output.weight, output.bias. It
// classifies, with softmax at the end (metric: accuracy), or with `regression` predicts a number
// (metric: rmse). InvalidArgument as CreateModel says.
absl::StatusOr<std::unique_ptr<const Model>> CreateMlp(const v1::MlpSpec& spec,
                                                       const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_MLP_H_
