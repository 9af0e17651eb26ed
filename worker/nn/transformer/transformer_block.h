#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BLOCK_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BLOCK_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "worker/nn/transformer/adapters/block_adapters.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/attention/attention_step.h"
#include "worker/nn/transformer/attention/query_key_norm.h"
#include "worker/nn/transformer/feed_forward/dense_feed_forward.h"
#include "worker/nn/transformer/feed_forward/expert_feed_forward.h"
#include "worker/nn/transformer/residual_norm.h"

namespace muster {

// What keys the dropout of the branch that block `layer` ends with, which the next unit takes in.
std::string FeedForwardBranchName(int64_t layer);

// The gradients that one block's backward works on.
struct BlockBackwardArrays {
  // [N, C]: of the block's result, and then of its input.
  float* stream = nullptr;
  // `down` is of the branch that the block ends with, and comes in.
  BlockProductGradients products;
  // T [N, C]: made of the branch that the block takes in; unless that is the stream's
  // (ResidualNorm::BranchGradient). Overwritten in any case.
  void* branch = nullptr;
  // Overwritten, but for the branch.
  const BlockScratch& scratch;
};

// One pre-norm transformer block: x += attention(norm1(x)); x += feed_forward(norm2(x)). The last
// addition is left to the next unit's norm. In a tensor group the shape is the rank's own
// (ShapeOfRank). `attention` is the step in which tokens read one another; Backward takes the step
// that gave Forward's result. The feed-forward part is dense, or of experts. Holds shapes only.
// Thread-safe.
class TransformerBlock {
 public:
  // `rotary_table` (FillRotaryTable for the shape's context), in the memory of the ops, outlives
  // the block; null without rotary positions.
  TransformerBlock(const TransformerShape& shape, int64_t layer, const float* rotary_table);

  // Where in.branch is null, in.sum must be activations.norm1.sum. The result is
  // activations.norm2.sum + dropout(scratch.branch).
  ResidualStream Forward(const ComputeContext& context, const AttentionStep& attention,
                         const BlockWeights& weights, const ResidualStream& in,
                         const BlockActivations& activations, const BlockScratch& scratch) const;

  // Makes the calls of the block's experts where the rank has no tokens: others may need its
  // experts, and count choices together with it. A no-op without such ranks.
  void ForwardWithoutTokens(const ComputeContext& context, const BlockWeights& weights,
                            const BlockActivations& activations, const BlockScratch& scratch) const;
  // The same for backward, which leaves the gradients of the rank's experts.
  void BackwardWithoutTokens(Recompute recompute, const ComputeContext& context,
                             const BlockWeights& weights, const BlockActivations& activations,
                             const BlockProductGradients& products, const BlockScratch& scratch,
                             const BlockGradients& gradients) const;

  // Makes what `recompute` names again. Overwrites scratch.inner.
  void RecomputeActivations(Recompute recompute, const ComputeContext& context,
                            const AttentionStep& attention, const BlockWeights& weights,
                            const BlockActivations& activations, const BlockScratch& scratch) const;

  // Makes the gradients with regard to the block's input of those with regard to its result, and
  // leaves the parameters' gradients as `context` says; with a split backward of norms alone. Reads
  // all activations.
  void Backward(const ComputeContext& context, const TrainedAttentionStep& attention,
                const BlockWeights& weights, const BlockActivations& activations,
                const BlockBackwardArrays& arrays, const BlockGradients& gradients) const;

  // Leaves the gradients of products' weights and biases, to the bits that Backward would make
  // without a split. Reads the products' inputs. REQUIRES: context.split_backward; after Backward.
  void BackwardWeights(const ComputeContext& context, const BlockActivations& activations,
                       const BlockProductGradients& products, const BlockScratch& scratch,
                       const BlockGradients& gradients) const;

 private:
  void ComputeQkv(const ComputeContext& context, const BlockWeights& weights,
                  const BlockActivations& activations, const BlockScratch& scratch) const;
  LayerAdapters AdaptersOf(AdaptedLayer layer, const BlockAdapters::Arrays& arrays) const {
    return {&adapters_, layer, &arrays};
  }
  void Attend(const ComputeContext& context, const AttentionStep& attention,
              const BlockActivations& activations) const;
  DenseArrays DenseOf(const BlockActivations& activations, void* gathered,
                      const BlockAdapters::Arrays* adapters = nullptr) const;
  void BackwardFeedForward(const ComputeContext& context, const BlockWeights& weights,
                           const BlockActivations& activations, const BlockBackwardArrays& arrays,
                           const BlockGradients& gradients) const;
  void BackwardAttention(const ComputeContext& context, const TrainedAttentionStep& attention,
                         const BlockWeights& weights, const BlockActivations& activations,
                         const BlockBackwardArrays& arrays, const BlockGradients& gradients) const;

  Linear Qkv(const ComputeContext& context) const;
  Linear Proj(const ComputeContext& context) const;
  AttentionShape AttentionOf(const TokenRows& rows) const;
  RotaryShape RotaryOf(const TokenRows& rows) const;
  // Dropout of attention's probabilities.
  OpDropout ProbabilitiesDropout(const ComputeContext& context) const;

  const TransformerShape shape_;
  // AttentionShape::window.
  const int64_t window_;
  const std::string probabilities_name_;
  const float* const rotary_table_;
  const ResidualNorm norm1_;
  const ResidualNorm norm2_;
  const QueryKeyNorm query_key_norm_;
  const DenseFeedForward dense_;
  const BlockAdapters adapters_;
  // Const after construction; nothing in a block with a dense layer.
  absl::optional<ExpertFeedForward> experts_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BLOCK_H_
