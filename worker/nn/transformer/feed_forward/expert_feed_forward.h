#ifndef MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_FEED_FORWARD_H_
#define MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_FEED_FORWARD_H_

#include "common/compute/expert_ops.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/feed_forward/dense_feed_forward.h"
#include "worker/nn/transformer/feed_forward/dispatched_experts.h"
#include "worker/nn/transformer/feed_forward/expert_products.h"

namespace muster {

// The gradients that backward of a layer of experts works on.
struct ExpertBackwardArrays {
  const void* dout = nullptr;  // T [n, C]: of the layer's result
  // `proj` becomes the gradient of the layer's input, and may be dout.
  BlockProductGradients products;
  // Overwritten: inner, expert_rows, weights_gradient, shared_gradient.
  BlockScratch scratch;
};

// A feed-forward layer of experts: each token goes to the top_k that its router chooses, and to the
// shared expert, if there is one. An expert's result is weighted before its last product, where the
// gradient of the weight is a sum over F' columns, and no results need be kept. Every rank has the
// tokens that are its own; within a token's group of ranks only counts of choices are summed. It
// has all experts, or with expert ranks its share of them (DispatchedExperts). Holds shapes only.
// Thread-safe.
class ExpertFeedForward {
 public:
  // REQUIRES: shape.experts.experts > 0.
  ExpertFeedForward(const TransformerShape& shape, int64_t layer);

  // branch T [n, C] = the layer's result of activations.norm2_out.
  void Forward(const ComputeContext& context, const BlockWeights& weights,
               const BlockActivations& activations, const BlockScratch& scratch,
               void* branch) const;
  // Makes what `recompute` names again, except counts, which stay. Overwrites scratch.expert_rows.
  void RecomputeActivations(Recompute recompute, const ComputeContext& context,
                            const BlockWeights& weights, const BlockActivations& activations,
                            const BlockScratch& scratch) const;
  // Makes products.proj, and leaves the gradients of weights unless BackwardWeights does. With a
  // gate, activations.experts.shared becomes the gradient of what the gate multiplies.
  void Backward(const ComputeContext& context, const BlockWeights& weights,
                const BlockActivations& activations, const ExpertBackwardArrays& arrays,
                const BlockGradients& gradients) const;
  // Leaves the gradients of weights; with expert ranks Backward has left those of experts. `dout`
  // is Backward's. Overwrites scratch.expert_rows.
  void BackwardWeights(const ComputeContext& context, const BlockActivations& activations,
                       const void* dout, const BlockProductGradients& products,
                       const BlockScratch& scratch, const BlockGradients& gradients) const;

 private:
  RouterShape Router(const ComputeContext& own) const;
  CountedTokens Counted(const ComputeContext& context) const;
  TokenRowsShape Rows(const ComputeContext& own) const;
  // Returns own rows in order of expert, where this rank has all experts.
  RowsOfExperts OwnRowsOfExperts(const ComputeContext& own,
                                 const BlockActivations& activations) const;
  DenseArrays Shared(const BlockActivations& activations) const;

  // Makes what the router says of each own row.
  void Route(const ComputeContext& own, const BlockWeights& weights,
             const BlockActivations& activations) const;
  // True in passes in which choices may be dropped: evaluations drop none.
  bool drops(const ComputeContext& context) const {
    return experts_.capacity > 0 && context.pass == Pass::kTraining;
  }
  // Returns the number of own rows that experts have, in the ops' memory; null: all.
  const int32_t* Kept(const ComputeContext& context, const BlockActivations& activations) const {
    return drops(context) ? activations.experts.rows.offsets + experts_.experts : nullptr;
  }
  // ExpertExtents::Parts.
  int64_t Parts(const ComputeContext& context) const;
  // Counts the choices of all data ranks' tokens, as far as this rank needs them to limit its own.
  void CountToLimit(const ComputeContext& context, const ComputeContext& own,
                    const BlockActivations& activations) const;
  // Makes the order of own rows by expert, without choices beyond the experts' limit.
  void OrderRows(const ComputeContext& context, const ComputeContext& own,
                 const BlockActivations& activations) const;
  // Makes expert_rows of x, T [n, C].
  void Gather(const ComputeContext& own, const BlockActivations& activations, const void* x,
              const BlockScratch& scratch) const;
  void Count(const ComputeContext& context, const ComputeContext& own,
             const BlockActivations& activations) const;
  void MakeActivated(const ComputeContext& own, const BlockWeights& weights,
                     const BlockActivations& activations, const BlockScratch& scratch) const;
  // Makes what the shared expert keeps of own rows, and its result, behind its gate; without a
  // branch, what the gate multiplies alone.
  void MakeShared(const ComputeContext& own, const BlockWeights& weights,
                  const BlockActivations& activations, void* branch) const;
  // Returns where experts leave what they make of own rows, in order of expert.
  const void* ResultRows(const ComputeContext& own, const BlockScratch& scratch) const;
  // Writes zeros where a rank without rows has gradients.
  void ZeroGradients(const ComputeContext& own, const BlockGradients& gradients) const;
  // Returns the gradient of the shared expert's result.
  const void* SharedGradient(const BlockActivations& activations, const void* dout) const;
  void BackwardShared(const ComputeContext& own, const BlockWeights& weights,
                      const BlockActivations& activations, const ExpertBackwardArrays& arrays,
                      const BlockGradients& gradients) const;
  // Leaves the gradients of experts, of own rows in scratch.expert_rows, and of their weights.
  void BackwardExperts(const ComputeContext& own, const BlockWeights& weights,
                       const BlockActivations& activations, const ExpertBackwardArrays& arrays,
                       const BlockGradients& gradients) const;
  void BackwardRouterWeights(const ComputeContext& own, const BlockActivations& activations,
                             const BlockProductGradients& products,
                             const BlockGradients& gradients) const;

  const TransformerShape shape_;
  const ExpertShape experts_;
  const ExpertExtents extents_;
  const int64_t layer_;
  const ExpertProducts products_;
  const DispatchedExperts dispatched_;
  const DenseFeedForward shared_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_FEED_FORWARD_H_
