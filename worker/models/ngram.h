#ifndef MUSTER_WORKER_MODELS_NGRAM_H_
#define MUSTER_WORKER_MODELS_NGRAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/model_limits.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class NgramSpec;
}  // namespace v1

// Language model over bytes: the preceding 1 … n bytes each look up a row of the table "embedding"
// (see ngram_keys.h); the n rows side by side go through one hidden ReLU layer to a softmax over
// all bytes. Two layer units: look-up and hidden layer, output. Tensors hidden0.weight,
// hidden0.bias, output.weight, output.bias. Metric: bits_per_byte. InvalidArgument as CreateModel
// says.
absl::StatusOr<std::unique_ptr<const Model>> CreateNgram(const v1::NgramSpec& spec,
                                                         const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_NGRAM_H_
