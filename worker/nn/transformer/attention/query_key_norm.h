#ifndef MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_QUERY_KEY_NORM_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_QUERY_KEY_NORM_H_

#include <cstdint>

#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// A block's norms of queries and of keys, between the product that makes these and the addition of
// positions. Does nothing where the shape has none. In a tensor group the shape is the rank's own.
// Holds shapes only. Thread-safe.
class QueryKeyNorm {
 public:
  explicit QueryKeyNorm(const TransformerShape& shape) : shape_(shape) {}

  // Normalises queries and keys in rows [N, Q]. `unnormed` is BlockActivations::unnormed.
  void Forward(const ComputeContext& context, const QueryKeyWeights& weights, void* qkv,
               void* unnormed) const;

  // Replaces their gradients by those of what Forward found, and leaves the weights' as the context
  // says.
  void Backward(const ComputeContext& context, const QueryKeyWeights& weights, const void* unnormed,
                void* dqkv, const QueryKeyGradients& gradients) const;

 private:
  bool exists() const { return shape_.normed_columns() > 0; }
  // Returns the shape of a norm over so many heads.
  HeadNormShape ShapeOf(const ComputeContext& context, int64_t heads) const;

  const TransformerShape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_QUERY_KEY_NORM_H_
