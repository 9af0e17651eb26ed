#ifndef MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_
#define MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_

#include <cstdint>

#include "worker/nn/transformer/compute_context.h"
#include "worker/nn/transformer/residual_norm.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

struct LanguageHeadWeights {
  NormWeights norm;
  const void* head = nullptr;  // T [V, C]
};

struct LanguageHeadGradients {
  LayerGradients norm;
  float* head = nullptr;  // [V, C]
};

// R = LanguageHead::LogitRows; V are the rows of the vocabulary, padding included, and the columns
// of the logits, whose rows are OpsTraits::LogitsStride(V) elements apart.
struct LanguageHeadActivations {
  NormActivations norm;
  void* norm_out = nullptr;  // T [N, C]
  // [R, V]: those made last; in training then their gradient in T, each row where its logits began.
  float* logits = nullptr;
};

// The end of a language model: norm, logits over the vocabulary, softmax cross entropy with the
// labels, [N], of which -1 counts for nothing. Logits exist for R tokens at a time, at the end
// perhaps for fewer. The gradient of the last logits is made by the forward pass, in the same sweep
// as their loss, and kept; so that only where N > R backward computes the other logits again. Holds
// shapes only. Thread-safe.
class LanguageHead {
 public:
  // `logit_rows`: tokens of which logits exist at a time; 0: as many as make 256 MiB of them in
  // f32, at least one.
  explicit LanguageHead(const TransformerShape& shape, int64_t logit_rows = 0);

  // R of N = `tokens` tokens, all of them if there are no more.
  int64_t LogitRows(int64_t tokens) const;

  // Adds to `sums` those of the loss and of right predictions over the tokens with a label.
  void Forward(const ComputeContext& context, const LanguageHeadWeights& weights,
               const ResidualStream& in, const int32_t* labels,
               const LanguageHeadActivations& activations, DeviceHeadSums* sums) const;

  // Writes the gradients of *context.loss_scale times the loss sum, with regard to in.sum
  // (stream_gradient, [N, C]) and in.branch (branch_gradient, T [N, C], unless
  // ResidualNorm::BranchGradient says that it is the stream's), and leaves those of the parameters
  // as `context` says. branch_gradient is overwritten in any case.
  void Backward(const ComputeContext& context, const LanguageHeadWeights& weights,
                const int32_t* labels, const LanguageHeadActivations& activations,
                float* stream_gradient, void* branch_gradient,
                const LanguageHeadGradients& gradients) const;

 private:
  // Computes the logits of `count` tokens from `first` on, and the loss where `sums` is not null.
  void ComputeLogits(const ComputeContext& context, int64_t first, int64_t count,
                     const LanguageHeadWeights& weights, const int32_t* labels,
                     const LanguageHeadActivations& activations, DeviceHeadSums* sums) const;

  const TransformerShape shape_;
  const int64_t logit_rows_;
  const ResidualNorm norm_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_LANGUAGE_HEAD_H_
