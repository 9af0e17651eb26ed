#include "worker/nn/transformer/transformer_embedding.h"

#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/arrays/tensor_rows.h"

namespace muster {

TokenEmbeddingShape TransformerEmbedding::KernelShape(const ComputeContext& context) const {
  const int64_t V = shape_.vocabulary_rows();
  TokenEmbeddingShape shape = {.rows = context.rows.count(),
                               .context = context.rows.whole_length(),
                               .first_position = context.rows.first_position,
                               .width = shape_.width,
                               .vocabulary = V,
                               .token_positions = context.rows.token_positions};
  if (context.group != nullptr) {
    shape.first_token = context.group->rank() * V;
    shape.tokens = context.group->size() * V;
  }
  return shape;
}

void TransformerEmbedding::Drop(const ComputeContext& context, float* stream) const {
  const int64_t C = shape_.width;
  const OpDropout dropout = DropoutOfOwnRows(context, "embedding", shape_.dropout, C);
  if (dropout.clock == nullptr || context.own_rows() == 0) return;
  context.ops.Dropout(dropout, context.own_rows() * C, context.rows.whole_length() * C, stream);
}

void TransformerEmbedding::Forward(const ComputeContext& context, const EmbeddingTokens& tokens,
                                   const EmbeddingWeights& weights, float* stream,
                                   void* block) const {
  context.ops.Embed(KernelShape(context), tokens, weights.table, weights.positions,
                    static_cast<float*>(SummandRows(context, stream, block)));
  SumRows(context, DType::kF32, shape_.width, stream, block);
  Drop(context, stream);
}

void TransformerEmbedding::Backward(const ComputeContext& context, const EmbeddingTokens& tokens,
                                    float* stream_gradient, void* block,
                                    const EmbeddingGradients& gradients) const {
  Drop(context, stream_gradient);
  const void* const rows = AllRows(context, DType::kF32, shape_.width, stream_gradient, block);
  context.ops.EmbedBackward(KernelShape(context), tokens, static_cast<const float*>(rows),
                            gradients);
}

}  // namespace muster
