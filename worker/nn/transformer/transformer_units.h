#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_UNITS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_UNITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/nn/layer.h"
#include "worker/nn/model_parameters.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"
#include "worker/nn/transformer/attention/attention_step.h"
#include "worker/nn/transformer/attention/heads_attention.h"
#include "worker/nn/transformer/language_head.h"
#include "worker/nn/transformer/transformer_block.h"
#include "worker/nn/transformer/transformer_embedding.h"

namespace muster {

// What a transformer's units are called with in one pass over a micro-batch. Everything that this
// points to lies in the memory of context.ops.
struct TransformerPass {
  ComputeContext context;
  // By tensor. Where context.type has 16 bits, `rounded` has the matrices of blocks and head and,
  // where OpsTraits::bias says kRounded, the biases of linear layers.
  ModelParameters parameters;
  EmbeddingTokens tokens;
  LanguageHeadLoss loss;
  const TransformerArrays& arrays;
};

// A transformer's layer units: the embedding, each block, the head with the loss. Queues their
// operations; failures are kept by the stream of the ops. A micro-batch of no tokens has gradients
// of zeros. Holds shapes only. Thread-safe.
class TransformerUnits {
 public:
  // `rotary_table`: FillRotaryTable's, [context, D], in the memory of the ops; outlives this; null
  // without rotary positions.
  // `mesh`: its tensor ranks are those of context.group in every pass; one: there is no group.
  TransformerUnits(const TransformerShape& shape, const Mesh& mesh, Recompute recompute,
                   const float* rotary_table);

  // Returns the whole tensors of the transformer.
  const TransformerTensors& tensors() const { return tensors_; }

  // Runs one unit forward; the last, which adds to pass.loss, in an evaluation alone. `in` is what
  // the unit before has returned; the first reads none, and the last returns none.
  ResidualStream Forward(const TransformerPass& pass, int unit, const ResidualStream& in) const;

  // Runs the last unit in training, forward and backward. Returns the gradients with regard to
  // `in`, which lie in pass.arrays for Backward of the unit before.
  ResidualStream RunLastUnit(const TransformerPass& pass, const ResidualStream& in,
                             GradientSpans gradients) const;

  // Runs one unit but the last backward. Reads the gradients that backward of the unit after it
  // left, and returns those with regard to the unit's input likewise; the first has none. Leaves
  // gradients of parameters, by tensor, as context.gradients says; a tied matrix is the last unit's
  // to write, and then added to.
  ResidualStream Backward(const TransformerPass& pass, int unit, GradientSpans gradients) const;

  // Does what Backward does in two calls: BackwardInput all that units before wait for, norms'
  // gradients among it, BackwardWeights what gradients of parameters remain, from arrays that stay
  // until the micro-batch's memory is used again. Without context.split_backward, and for the
  // first unit, nothing remains.
  ResidualStream BackwardInput(const TransformerPass& pass, int unit,
                               GradientSpans gradients) const;
  void BackwardWeights(const TransformerPass& pass, int unit, GradientSpans gradients) const;

 private:
  int last_unit() const { return shape_.units() - 1; }
  const TransformerBlock& block(int unit) const { return blocks_[unit - 1]; }

  BlockWeights BlockWeightsOf(const TransformerPass& pass, int unit) const;
  LanguageHeadWeights HeadWeightsOf(const TransformerPass& pass) const;
  // Sets to zero what the unit writes of no tokens, and what it only adds to.
  void ZeroGradients(Ops& ops, int unit, GradientSpans gradients) const;
  static std::unique_ptr<const TrainedAttentionStep> AttentionOf(
      const TransformerPass& pass, int unit, HeadsInput input = HeadsInput::kExchanged);
  // Returns where backward leaves the gradients with regard to what the unit returned.
  ResidualStream OutputGradient(const TransformerPass& pass, int unit) const;

  // Returns whether the shape has the tensor, and this rank something of it.
  bool Has(const ComputeContext& context, int tensor) const;
  // Returns a tensor's values or gradients; null if this rank has none.
  template <typename E>
  E* ValuesOf(const ComputeContext& context, int tensor,
              absl::Span<const absl::Span<E>> values) const;
  LayerGradients GradientOf(const ComputeContext& context, const LayerTensors& layer,
                            GradientSpans gradients) const;
  NormWeights NormOf(const TransformerPass& pass, const LayerTensors& norm) const;
  LinearWeights LinearOf(const TransformerPass& pass, const LayerTensors& linear) const;
  const void* RoundedOf(const TransformerPass& pass, int tensor) const;
  BlockGradients BlockGradientsOf(const ComputeContext& context, int unit,
                                  GradientSpans gradients) const;

  // The rank's own.
  const TransformerShape shape_;
  const Recompute recompute_;
  // The whole transformer's.
  const TransformerTensors tensors_;
  const TransformerEmbedding embedding_;
  const LanguageHead head_;
  std::vector<TransformerBlock> blocks_;  // Const after construction.
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_UNITS_H_
