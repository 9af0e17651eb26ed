#ifndef MUSTER_WORKER_MODELS_TRANSFORMER_H_
#define MUSTER_WORKER_MODELS_TRANSFORMER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/compute/activation_layout.h"
#include "common/mesh/mesh.h"
#include "common/tensor/dtype.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/transformer_backend.h"

namespace muster {

namespace v1 {
class ComputeSpec;
class TransformerSpec;
}  // namespace v1

// Returns a decoder-only language model: worker/nn/transformer/arrays/transformer_shape.h says
// which, transformer_tensors.h its tensors. Units are the embedding, each block, and the head with
// the loss; the loss is summed over all tokens with a label. Metric: bits_per_byte. InvalidArgument
// as CreateModel says.
absl::StatusOr<std::unique_ptr<const Model>> CreateTransformer(const v1::TransformerSpec& spec,
                                                               const v1::ComputeSpec& compute,
                                                               const DatasetInfo& data,
                                                               const Mesh& mesh,
                                                               const AdapterShape& adapter);

// Returns the same of a shape, computed in `type` (f32, bf16 or f16) by `backend`, which is made
// for them. Where the mesh has several tensor ranks, the parameters and gradients of its passes are
// the shares of the rank in LayerContext::tensor_group (LocalTensors of the description's, which
// are whole), and the backend is for ShapeOfRank(shape, mesh).
std::unique_ptr<const Model> MakeTransformer(const TransformerShape& shape, const Mesh& mesh,
                                             DType type, Recompute recompute,
                                             std::unique_ptr<const TransformerBackend> backend);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_TRANSFORMER_H_
