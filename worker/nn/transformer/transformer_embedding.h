#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_EMBEDDING_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_EMBEDDING_H_

#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

struct EmbeddingWeights {
  const float* table = nullptr;      // [V, C]: in a tensor group the rank's own rows
  const float* positions = nullptr;  // [context, C]; null: none
};

// The beginning of a transformer: tokens become the residual stream, [n, C], with dropout. In a
// tensor group each rank looks up the tokens of its own rows of the table, and the ranks' results
// are added up; one of them has the positions. `block` is BlockScratch::gathered. Holds shapes
// only. Thread-safe.
class TransformerEmbedding {
 public:
  explicit TransformerEmbedding(const TransformerShape& shape) : shape_(shape) {}

  void Forward(const ComputeContext& context, const EmbeddingTokens& tokens,
               const EmbeddingWeights& weights, float* stream, void* block) const;

  // Adds to the gradients, whatever context.gradients says: most rows of the table have none.
  // Overwrites stream_gradient.
  void Backward(const ComputeContext& context, const EmbeddingTokens& tokens,
                float* stream_gradient, void* block, const EmbeddingGradients& gradients) const;

 private:
  TokenEmbeddingShape KernelShape(const ComputeContext& context) const;
  // Drops from the stream or its gradient.
  void Drop(const ComputeContext& context, float* stream) const;

  const TransformerShape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_EMBEDDING_H_
