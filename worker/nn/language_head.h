#ifndef MUSTER_WORKER_NN_LANGUAGE_HEAD_H_
#define MUSTER_WORKER_NN_LANGUAGE_HEAD_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/kernels/cross_entropy_rows.h"
#include "common/tensor/bfloat16.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/residual_norm.h"
#include "worker/nn/transformer_arrays.h"
#include "worker/nn/transformer_shape.h"

namespace muster {

template <typename T>
struct LanguageHeadWeights {
  NormWeights norm;
  const T* head = nullptr;  // [V, C]
};

struct LanguageHeadGradients {
  LayerGradients norm;
  float* head = nullptr;  // [V, C]
};

// R = LanguageHead::LogitRows; V are the rows of the vocabulary, padding included.
template <typename T>
struct LanguageHeadActivations {
  NormActivations norm;
  T* norm_out = nullptr;  // [N, C]
  // [R, V]: those made last; in training then their gradient in T, each row where its logits began.
  float* logits = nullptr;
};

// The end of a language model: norm, logits over the vocabulary, softmax cross entropy with the
// labels, of which -1 counts for nothing. Logits exist for R tokens at a time, at the end perhaps
// for fewer. The gradient of the last logits is made by the forward pass, in the same sweep as
// their loss, and kept; so that only where N > R backward computes the other logits again. Holds
// shapes only. Thread-safe; computes on ComputeThreads() threads.
template <typename T>
class LanguageHead {
 public:
  // `logit_rows`: tokens of which logits exist at a time; 0: as many as make 256 MiB of them in
  // f32, at least one.
  explicit LanguageHead(const TransformerShape& shape, int64_t logit_rows = 0);

  // R of N = `tokens` tokens, all of them if there are no more.
  int64_t LogitRows(int64_t tokens) const;

  // Sums of the loss and of right predictions over the tokens with a label.
  HeadSums Forward(const LayerContext& context, const TokenRows& rows,
                   const LanguageHeadWeights<T>& weights, const ResidualStream<T>& in,
                   absl::Span<const int32_t> labels,
                   const LanguageHeadActivations<T>& activations) const;

  // Writes the gradients of context.loss_scale times the loss sum, with regard to in.sum
  // (stream_gradient, [N, C]) and in.branch (branch_gradient, [N, C], unless
  // ResidualNorm::BranchGradient says that it is the stream's), and adds those of the parameters.
  // branch_gradient is overwritten in any case.
  void Backward(const LayerContext& context, const TokenRows& rows,
                const LanguageHeadWeights<T>& weights, absl::Span<const int32_t> labels,
                const LanguageHeadActivations<T>& activations, float* stream_gradient,
                T* branch_gradient, const LanguageHeadGradients& gradients) const;

 private:
  HeadSums ComputeLogits(const LayerContext& context, int64_t first, int64_t count,
                         const LanguageHeadWeights<T>& weights, absl::Span<const int32_t> labels,
                         const LanguageHeadActivations<T>& activations) const;

  const TransformerShape shape_;
  const int64_t logit_rows_;
  const ResidualNorm<T> norm_;
};

extern template class LanguageHead<float>;
extern template class LanguageHead<BFloat16>;
extern template class LanguageHead<Float16>;

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LANGUAGE_HEAD_H_
