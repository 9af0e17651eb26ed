#include "worker/nn/transformer/attention/query_key_norm.h"

#include "worker/nn/transformer/arrays/typed_array.h"

namespace muster {

HeadNormShape QueryKeyNorm::ShapeOf(const ComputeContext& context, int64_t heads) const {
  const int64_t together = shape_.HeadsOfNorm(heads);
  return {.rows = context.rows.count(),
          .groups = heads / together,
          .width = together * shape_.head_dim(),
          .stride = shape_.qkv_width(),
          .kept_stride = shape_.normed_columns(),
          .epsilon = shape_.norm_epsilon};
}

void QueryKeyNorm::Forward(const ComputeContext& context, const QueryKeyWeights& weights, void* qkv,
                           void* unnormed) const {
  if (!exists()) return;
  const int64_t keys = shape_.attention_width();
  context.ops.HeadNorm(ShapeOf(context, shape_.heads), context.type,
                       {.gain = weights.queries, .x = qkv, .kept = unnormed});
  context.ops.HeadNorm(ShapeOf(context, shape_.kv_heads), context.type,
                       {.gain = weights.keys,
                        .x = At(context.type, qkv, keys),
                        .kept = unnormed == nullptr ? nullptr : At(context.type, unnormed, keys)});
}

void QueryKeyNorm::Backward(const ComputeContext& context, const QueryKeyWeights& weights,
                            const void* unnormed, void* dqkv,
                            const QueryKeyGradients& gradients) const {
  if (!exists()) return;
  const int64_t keys = shape_.attention_width();
  const HeadNormShape of_queries = ShapeOf(context, shape_.heads);
  const HeadNormShape of_keys = ShapeOf(context, shape_.kv_heads);
  if (context.gradients == Accumulation::kWrite) {
    if (gradients.queries != nullptr) context.ops.Zero(of_queries.width, gradients.queries);
    if (gradients.keys != nullptr) context.ops.Zero(of_keys.width, gradients.keys);
  }
  context.ops.HeadNormBackward(
      of_queries, context.type,
      {.kept = unnormed, .gain = weights.queries, .dx = dqkv, .gain_gradient = gradients.queries});
  context.ops.HeadNormBackward(of_keys, context.type,
                               {.kept = At(context.type, unnormed, keys),
                                .gain = weights.keys,
                                .dx = At(context.type, dqkv, keys),
                                .gain_gradient = gradients.keys});
}

}  // namespace muster
