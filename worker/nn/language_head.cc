#include "worker/nn/language_head.h"

#include <algorithm>

#include "worker/nn/linear_rows.h"
#include "worker/nn/transformer_block.h"

namespace muster {
namespace {

int64_t UsualLogitRows(const TransformerShape& shape) {
  constexpr int64_t kLogits = (int64_t{256} << 20) / sizeof(float);
  return std::max<int64_t>(1, kLogits / shape.vocabulary_rows());
}

// A row of the logits' gradient lies at the start of its logits.
template <typename T>
int64_t GradientStride(const TransformerShape& shape) {
  return shape.vocabulary_rows() * static_cast<int64_t>(sizeof(float) / sizeof(T));
}

}  // namespace

template <typename T>
LanguageHead<T>::LanguageHead(const TransformerShape& shape, int64_t logit_rows)
    : shape_(shape),
      logit_rows_(logit_rows > 0 ? logit_rows : UsualLogitRows(shape)),
      norm_(shape, FeedForwardBranchName(shape.layers - 1)) {}

template <typename T>
int64_t LanguageHead<T>::LogitRows(int64_t tokens) const {
  return std::min(tokens, logit_rows_);
}

template <typename T>
HeadSums LanguageHead<T>::ComputeLogits(const LayerContext& context, int64_t first, int64_t count,
                                        const LanguageHeadWeights<T>& weights,
                                        absl::Span<const int32_t> labels,
                                        const LanguageHeadActivations<T>& activations) const {
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  LinearForward<T>({.rows = count, .in = C, .out = V}, activations.norm_out + first * C,
                   weights.head, nullptr, activations.logits);
  T* gradient =
      context.pass == Pass::kTraining ? reinterpret_cast<T*>(activations.logits) : nullptr;
  return SoftmaxCrossEntropyRows<T>({.rows = count, .vocabulary = shape_.vocabulary, .columns = V},
                                    activations.logits, labels.data() + first, context.loss_scale,
                                    gradient, GradientStride<T>(shape_));
}

template <typename T>
HeadSums LanguageHead<T>::Forward(const LayerContext& context, const TokenRows& rows,
                                  const LanguageHeadWeights<T>& weights,
                                  const ResidualStream<T>& in, absl::Span<const int32_t> labels,
                                  const LanguageHeadActivations<T>& activations) const {
  norm_.Forward(context, rows, weights.norm, in, activations.norm, activations.norm_out);
  const int64_t N = rows.count();
  HeadSums sums;
  const int64_t R = LogitRows(N);
  for (int64_t first = 0; first < N; first += R) {
    const HeadSums part =
        ComputeLogits(context, first, std::min(R, N - first), weights, labels, activations);
    sums.loss += part.loss;
    sums.tokens += part.tokens;
    sums.correct += part.correct;
  }
  return sums;
}

template <typename T>
void LanguageHead<T>::Backward(const LayerContext& context, const TokenRows& rows,
                               const LanguageHeadWeights<T>& weights,
                               absl::Span<const int32_t> labels,
                               const LanguageHeadActivations<T>& activations,
                               float* stream_gradient, T* branch_gradient,
                               const LanguageHeadGradients& gradients) const {
  const int64_t N = rows.count();
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t R = LogitRows(N);
  Accumulation accumulation = context.gradients;
  // The last logits first: forward has left them.
  for (int64_t first = (N - 1) / R * R; first >= 0; first -= R) {
    const int64_t count = std::min(R, N - first);
    if (first + R < N) ComputeLogits(context, first, count, weights, labels, activations);
    const T* logits_gradient = reinterpret_cast<const T*>(activations.logits);
    const int64_t stride = GradientStride<T>(shape_);
    Gemm<T, float>(
        V, C, count, logits_gradient, activations.norm_out + first * C, gradients.head,
        {.transpose_a = Transpose::kYes, .a_stride = stride, .accumulation = accumulation});
    accumulation = Accumulation::kAdd;
    Gemm<T, T>(count, C, V, logits_gradient, weights.head, branch_gradient + first * C,
               {.a_stride = stride});
  }
  norm_.Backward(context, rows, weights.norm, activations.norm, branch_gradient,
                 ResidualNorm<T>::Upstream::kNone, stream_gradient, branch_gradient,
                 gradients.norm);
}

template class LanguageHead<float>;
template class LanguageHead<BFloat16>;
template class LanguageHead<Float16>;

}  // namespace muster
