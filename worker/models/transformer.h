#ifndef MUSTER_WORKER_MODELS_TRANSFORMER_H_
#define MUSTER_WORKER_MODELS_TRANSFORMER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class ComputeSpec;
class TransformerSpec;
}  // namespace v1

// A decoder-only language model: worker/nn/transformer/transformer_shape.h says which,
// transformer_tensors.h its tensors. Units are the embedding, each block, and the head with the
// loss; the loss is summed over all tokens with a label. Metric: bits_per_byte. InvalidArgument as
// CreateModel says.
absl::StatusOr<std::unique_ptr<const Model>> CreateTransformer(const v1::TransformerSpec& spec,
                                                               const v1::ComputeSpec& compute,
                                                               const DatasetInfo& data);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_TRANSFORMER_H_
