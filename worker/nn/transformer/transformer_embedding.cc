#include "worker/nn/transformer/transformer_embedding.h"

namespace muster {

TokenEmbeddingShape TransformerEmbedding::KernelShape(const TokenRows& rows) const {
  return {.rows = rows.count(),
          .context = rows.length,
          .first_position = rows.first_position,
          .width = shape_.width,
          .vocabulary = shape_.vocabulary_rows()};
}

void TransformerEmbedding::Drop(const ComputeContext& context, float* stream) const {
  const OpDropout dropout = DropoutOf(context, "embedding", shape_.dropout);
  if (dropout.clock == nullptr) return;
  const TokenRows& rows = context.rows;
  context.ops.Dropout(dropout, rows.sequences, rows.length * shape_.width, stream);
}

void TransformerEmbedding::Forward(const ComputeContext& context, const EmbeddingTokens& tokens,
                                   const EmbeddingWeights& weights, float* stream) const {
  context.ops.Embed(KernelShape(context.rows), tokens, weights.table, weights.positions, stream);
  Drop(context, stream);
}

void TransformerEmbedding::Backward(const ComputeContext& context, const EmbeddingTokens& tokens,
                                    float* stream_gradient,
                                    const EmbeddingGradients& gradients) const {
  Drop(context, stream_gradient);
  context.ops.EmbedBackward(KernelShape(context.rows), tokens, stream_gradient, gradients);
}

}  // namespace muster
