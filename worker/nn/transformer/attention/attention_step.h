#ifndef MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_ATTENTION_STEP_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_ATTENTION_STEP_H_

#include "common/compute/ops.h"
#include "worker/nn/transformer/arrays/compute_context.h"

namespace muster {

// The step of a block in which tokens read other tokens, between the product that makes queries,
// keys and values and the product that takes in the result. Implementations differ in where the
// keys and values of the other tokens are. The block does everything that goes row by row, rotary
// positions included; shape, arrays and dropout mean what they mean in Ops::Attention, and
// context.rows are the tokens of the arrays. The stream of the ops keeps failures.
class AttentionStep {
 public:
  virtual ~AttentionStep() = default;

  virtual void Forward(const ComputeContext& context, const AttentionShape& shape,
                       const AttentionArrays& arrays) const = 0;
};

// An attention step for training. Forward runs again before Backward where attention is recomputed,
// and gives the same bits.
class TrainedAttentionStep : public AttentionStep {
 public:
  virtual void Backward(const ComputeContext& context, const AttentionShape& shape,
                        const AttentionGradientArrays& arrays) const = 0;
};

// The arrays hold whole sequences. Thread-safe.
class PlainAttentionStep final : public TrainedAttentionStep {
 public:
  void Forward(const ComputeContext& context, const AttentionShape& shape,
               const AttentionArrays& arrays) const override {
    context.ops.Attention(shape, context.type, arrays);
  }
  void Backward(const ComputeContext& context, const AttentionShape& shape,
                const AttentionGradientArrays& arrays) const override {
    context.ops.AttentionBackward(shape, context.type, arrays);
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_ATTENTION_STEP_H_
