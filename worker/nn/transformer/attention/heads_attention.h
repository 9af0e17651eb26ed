#ifndef MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_HEADS_ATTENTION_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_HEADS_ATTENTION_H_

#include "common/compute/ops.h"
#include "common/compute/transformer_activations.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/attention/attention_step.h"

namespace muster {

// Where Forward finds queries, keys and values.
enum class HeadsInput {
  // In BlockActivations::qkv, those of the rank's tokens, from which they go to other ranks.
  kExchanged,
  // In ContextArrays::head_qkv, where the last Forward has left them.
  kKept,
};

// Attention of context ranks (ComputeContext::context_group) that have two chunks of every sequence
// (common/compute/context_ring.h) and change to whole sequences to attend: rank r of c has the
// query heads [r H / c, (r + 1) H / c) of all tokens, and the key-value heads that these read
// (Jacobs et al., "DeepSpeed Ulysses", 2023). Where there are fewer key-value heads than ranks,
// several ranks have the same, and their gradients of it are added in f32, in order of rank.
//
// With c ranks that have N tokens each, a rank sends (c - 1) / c · N (Q' + A) elements forward, and
// as many backward. `block` is written over as its comments say. Used by one thread.
class HeadsAttentionStep final : public TrainedAttentionStep {
 public:
  HeadsAttentionStep(const BlockActivations& block, HeadsInput input)
      : block_(block), input_(input) {}

  void Forward(const ComputeContext& context, const AttentionShape& shape,
               const AttentionArrays& arrays) const override;
  void Backward(const ComputeContext& context, const AttentionShape& shape,
                const AttentionGradientArrays& arrays) const override;

 private:
  const BlockActivations& block_;
  const HeadsInput input_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_HEADS_ATTENTION_H_
