#ifndef MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_
#define MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_

#include <cstdint>

#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/residual_norm.h"

namespace muster {

struct LanguageHeadWeights {
  NormWeights norm;
  const void* head = nullptr;  // T [V, C]: in a tensor group the rank's own rows
};

struct LanguageHeadLoss {
  const int32_t* labels = nullptr;  // [N]; -1 counts for nothing
  // The loss and the right predictions over the tokens with a label are added to it.
  HeadSums* sums = nullptr;
};

struct LanguageHeadGradients {
  // With regard to what comes in: in.sum, [n, C], and in.branch, T [n, C], unless
  // ResidualNorm::BranchGradient says that it is the stream's. Both are overwritten in any case;
  // `branch` may be in.branch.
  float* stream = nullptr;
  void* branch = nullptr;
  // Left as ComputeContext::gradients says.
  LayerGradients norm;
  float* head = nullptr;  // [V, C]
};

// The end of a language model: norm, logits over the vocabulary, softmax cross entropy with the
// labels. Logits exist for R tokens at a time (LanguageHeadActivations), for the last tokens
// perhaps fewer. In training their gradient takes their place in the same sweep that makes their
// loss, and all that reads it follows before the next tokens; so no logits are computed twice.
//
// In training the loss has the shape's terms besides cross entropy (LossTerms); in an evaluation it
// has none.
//
// In a tensor group each rank has the logits of its own rows of the vocabulary, and ranks tell one
// another four numbers of each token (SoftmaxPart). All ranks have the same loss. `block` is
// BlockScratch::gathered. Holds shapes only. Thread-safe.
class LanguageHead {
 public:
  // `shape` is the rank's own (ShapeOfRank) of a transformer with `tokens` tokens.
  LanguageHead(const TransformerShape& shape, int64_t tokens);

  // Runs an evaluation.
  void Forward(const ComputeContext& context, const LanguageHeadWeights& weights,
               const ResidualStream& in, const LanguageHeadLoss& loss,
               const LanguageHeadActivations& activations, void* block) const;

  // Runs forward and backward. The gradients are those of *context.loss_scale times the loss sum.
  // The last tokens come first; so where N > R the last bit of the loss sum may differ from that of
  // Forward.
  void ForwardBackward(const ComputeContext& context, const LanguageHeadWeights& weights,
                       const ResidualStream& in, const LanguageHeadLoss& loss,
                       const LanguageHeadActivations& activations, void* block,
                       const LanguageHeadGradients& gradients) const;

 private:
  // Computes the logits of `count` tokens from `first` on, their loss and, in training, their
  // gradient in place. `in`, T [N, C], is the result of the norm.
  void ComputeLoss(const ComputeContext& context, int64_t first, int64_t count, const void* in,
                   const LanguageHeadWeights& weights, const LanguageHeadLoss& loss,
                   const LanguageHeadActivations& activations) const;
  // Makes the loss of logits of which this rank has some columns.
  void AddLossOfRanks(const ComputeContext& context, const CrossEntropyShape& shape,
                      const CrossEntropyArrays& arrays,
                      const LanguageHeadActivations& activations) const;

  const TransformerShape shape_;
  // The number of tokens of all ranks' vocabulary; those behind are padding.
  const int64_t tokens_;
  const ResidualNorm norm_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_
