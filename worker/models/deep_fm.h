#ifndef MUSTER_WORKER_MODELS_DEEP_FM_H_
#define MUSTER_WORKER_MODELS_DEEP_FM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class DeepFmSpec;
}  // namespace v1

// DeepFM (Guo, Tang, Ye, Li, He, "DeepFM: A Factorization-Machine based Neural Network for CTR
// Prediction", 2017, section 2.1): a factorisation machine and a perceptron that share embeddings,
// their logits added. Each categorical value has a row [w, v_1 … v_D] of the table "embedding": w
// goes to the first-order sum, v to the pairwise products of the machine and to the perceptron.
// Numeric columns have first-order weights of their own (numeric.weight) and go to the perceptron
// as they are, but not into the pairwise products. One layer unit per linear layer of the
// perceptron; the first also looks rows up and computes the machine. Metric: auc. With `regression`
// the sum of logits is the prediction of a number, such as a rating. Metric: rmse. InvalidArgument
// as CreateModel says.
absl::StatusOr<std::unique_ptr<const Model>> CreateDeepFm(const v1::DeepFmSpec& spec,
                                                          const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_DEEP_FM_H_
