#ifndef MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_ATTENTION_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_ATTENTION_H_

#include "common/compute/ops.h"
#include "common/compute/transformer_activations.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/attention/attention_step.h"

namespace muster {

// Attention of context ranks (ComputeContext::context_group), each of which has two chunks of every
// sequence (common/compute/context_ring.h), with the keys and values of all of them. Each chunk of
// queries attends to each chunk of keys that it sees, and results are merged by their logsumexp in
// f32. Backward makes the gradients of keys and values by the same pairs, in f32, and sums them on
// the rank that has these.
//
// RING (Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023):
// keys and values go from rank to rank, and in backward the sums of their gradients behind them,
// while a rank computes with those at hand. GATHER (the Llama 3 herd of models, 2024, section
// 3.3.2): keys and values of all are gathered first, in backward again, where the gradients' sums
// are scattered last. With both a rank computes the same pairs in the same order, from its own keys
// on backwards through the ranks.
//
// `arrays` are written over. Used by one thread.
class ContextAttentionStep final : public TrainedAttentionStep {
 public:
  explicit ContextAttentionStep(const ContextArrays& arrays) : arrays_(arrays) {}

  void Forward(const ComputeContext& context, const AttentionShape& shape,
               const AttentionArrays& arrays) const override;
  void Backward(const ComputeContext& context, const AttentionShape& shape,
                const AttentionGradientArrays& arrays) const override;

 private:
  const ContextArrays& arrays_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_ATTENTION_H_
