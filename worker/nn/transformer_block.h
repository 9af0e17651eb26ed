#ifndef MUSTER_WORKER_NN_TRANSFORMER_BLOCK_H_
#define MUSTER_WORKER_NN_TRANSFORMER_BLOCK_H_

#include <string>

#include "absl/types/optional.h"
#include "common/kernels/dropout.h"
#include "common/tensor/bfloat16.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/residual_norm.h"
#include "worker/nn/transformer_arrays.h"
#include "worker/nn/transformer_shape.h"

namespace muster {

// What keys the dropout of the branch that block `layer` ends with, which the next unit takes in.
std::string FeedForwardBranchName(int64_t layer);

// One pre-norm transformer block: x += attention(norm1(x)); x += feed_forward(norm2(x)). The last
// addition is left to the next unit's norm. Holds shapes only. Thread-safe; computes on
// ComputeThreads() threads.
template <typename T>
class TransformerBlock {
 public:
  // `rotary_table` (FillRotaryTable for the shape's context) outlives the block; null without
  // rotary positions.
  TransformerBlock(const TransformerShape& shape, int64_t layer, const float* rotary_table);

  // Where in.branch is null, in.sum must be activations.norm1.sum. The result is
  // activations.norm2.sum + dropout(scratch.branch).
  ResidualStream<T> Forward(const LayerContext& context, const TokenRows& rows,
                            const BlockWeights<T>& weights, const ResidualStream<T>& in,
                            const BlockActivations<T>& activations,
                            const BlockScratch<T>& scratch) const;

  // Makes what `recompute` names again. Overwrites scratch.inner.
  void Again(Recompute recompute, const LayerContext& context, const TokenRows& rows,
             const BlockWeights<T>& weights, const BlockActivations<T>& activations,
             const BlockScratch<T>& scratch) const;

  // Turns stream_gradient, [N, C], from the gradient of the block's result into that of its input,
  // scratch.branch likewise with regard to the branches, and adds to the parameters' gradients.
  // Reads all activations.
  void Backward(const LayerContext& context, const TokenRows& rows, const BlockWeights<T>& weights,
                const BlockActivations<T>& activations, const BlockScratch<T>& scratch,
                float* stream_gradient, const BlockGradients& gradients) const;

 private:
  void ComputeQkv(const TokenRows& rows, const BlockWeights<T>& weights,
                  const BlockActivations<T>& activations) const;
  void Attend(const LayerContext& context, const TokenRows& rows,
              const BlockActivations<T>& activations) const;
  void Project(const TokenRows& rows, const BlockWeights<T>& weights,
               const BlockActivations<T>& activations, T* branch) const;
  void ComputeUp(const TokenRows& rows, const BlockWeights<T>& weights,
                 const BlockActivations<T>& activations) const;
  void Activate(const TokenRows& rows, const BlockActivations<T>& activations) const;
  void BackwardFeedForward(const LayerContext& context, const TokenRows& rows,
                           const BlockWeights<T>& weights, const BlockActivations<T>& activations,
                           const BlockScratch<T>& scratch, const float* stream_gradient,
                           const BlockGradients& gradients) const;
  void BackwardAttention(const LayerContext& context, const TokenRows& rows,
                         const BlockWeights<T>& weights, const BlockActivations<T>& activations,
                         const BlockScratch<T>& scratch, const float* stream_gradient,
                         const BlockGradients& gradients) const;

  // Of attention's probabilities in this pass; nullopt: nothing is dropped.
  absl::optional<DropoutMask> ProbabilitiesMask(const LayerContext& context) const;

  const TransformerShape shape_;
  const std::string probabilities_name_;
  const float* const rotary_table_;
  const ResidualNorm<T> norm1_;
  const ResidualNorm<T> norm2_;
};

extern template class TransformerBlock<float>;
extern template class TransformerBlock<BFloat16>;
extern template class TransformerBlock<Float16>;

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_BLOCK_H_
