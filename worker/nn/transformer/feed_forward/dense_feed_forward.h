#ifndef MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DENSE_FEED_FORWARD_H_
#define MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DENSE_FEED_FORWARD_H_

#include <cstdint>

#include "worker/nn/transformer/adapters/block_adapters.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// The arrays of a dense feed-forward layer, T.
struct DenseArrays {
  const void* in = nullptr;   // [n, C]
  void* up = nullptr;         // [N, U]
  void* activated = nullptr;  // [N, F]
  // BlockScratch's.
  void* gathered = nullptr;
  // Those of the block's own layer.
  const BlockAdapters* adapters = nullptr;
  const BlockAdapters::Arrays* adapter_arrays = nullptr;

  LayerAdapters AdaptersOf(AdaptedLayer layer) const { return {adapters, layer, adapter_arrays}; }
};

struct DenseBackwardArrays {
  const void* dout = nullptr;  // [n, C]
  void* inner = nullptr;       // BlockScratch's; overwritten
  void* dup = nullptr;         // [N, U]
  void* din = nullptr;         // [n, C]
};

// down · activation(up · in): a block's feed-forward layer, or a shared expert beside others. In a
// tensor group the shape is the rank's own. Holds shapes only. Thread-safe.
class DenseFeedForward {
 public:
  // `columns` is F.
  DenseFeedForward(const TransformerShape& shape, int64_t columns);

  // Makes `up` and `activated`.
  void MakeActivated(const ComputeContext& context, const LinearWeights& up,
                     const DenseArrays& arrays) const;
  // Makes `activated` of `up` again.
  void Activate(const ComputeContext& context, const DenseArrays& arrays) const;
  // out T [n, C] = down · activated.
  void MakeOut(const ComputeContext& context, const LinearWeights& down, const DenseArrays& arrays,
               void* out) const;

  // Makes dup and din, and leaves the gradients of weights unless they are made apart.
  void Backward(const ComputeContext& context, const LinearWeights& up, const LinearWeights& down,
                const DenseArrays& arrays, const DenseBackwardArrays& backward,
                const LayerGradients& up_gradients, const LayerGradients& down_gradients) const;
  // Leaves the gradients of weights. Reads `in`, `activated`, dout and dup.
  void BackwardWeights(const ComputeContext& context, const DenseArrays& arrays, const void* dout,
                       const void* dup, const LayerGradients& up_gradients,
                       const LayerGradients& down_gradients) const;

 private:
  bool swiglu() const { return shape_.activation == TransformerShape::Activation::kSwiGlu; }
  Linear Up(const ComputeContext& context) const;
  Linear Down(const ComputeContext& context) const;

  const TransformerShape shape_;
  const int64_t columns_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DENSE_FEED_FORWARD_H_
