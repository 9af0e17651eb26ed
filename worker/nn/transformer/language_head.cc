#include "worker/nn/transformer/language_head.h"

#include <algorithm>
#include <cstddef>

#include "worker/nn/transformer/transformer_block.h"

namespace muster {
namespace {

int64_t UsualLogitRows(const TransformerShape& shape) {
  constexpr int64_t kLogits = (int64_t{256} << 20) / sizeof(float);
  return std::max<int64_t>(1, kLogits / shape.vocabulary_rows());
}

void* At(DType type, void* array, int64_t element) {
  return static_cast<std::byte*>(array) + element * static_cast<int64_t>(SizeOf(type));
}

}  // namespace

LanguageHead::LanguageHead(const TransformerShape& shape, int64_t logit_rows)
    : shape_(shape),
      logit_rows_(logit_rows > 0 ? logit_rows : UsualLogitRows(shape)),
      norm_(shape, FeedForwardBranchName(shape.layers - 1)) {}

int64_t LanguageHead::LogitRows(int64_t tokens) const { return std::min(tokens, logit_rows_); }

void LanguageHead::ComputeLogits(const ComputeContext& context, int64_t first, int64_t count,
                                 const LanguageHeadWeights& weights, const int32_t* labels,
                                 const LanguageHeadActivations& activations,
                                 DeviceHeadSums* sums) const {
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t stride = context.ops.traits().LogitsStride(V);
  context.ops.LinearForward(
      {.type = context.type, .rows = count, .in = C, .out = V, .out_stride = stride},
      {.x = At(context.type, activations.norm_out, first * C),
       .weight = weights.head,
       .result = LinearForwardArrays::Result::kF32,
       .y = activations.logits});
  context.ops.CrossEntropy(
      {.rows = count, .vocabulary = V, .tokens = shape_.vocabulary, .logits_stride = stride},
      context.type,
      {.logits = activations.logits,
       .labels = labels + first,
       .gradient = context.pass == Pass::kTraining ? activations.logits : nullptr,
       .gradient_scale = context.loss_scale,
       .sums = sums});
}

void LanguageHead::Forward(const ComputeContext& context, const LanguageHeadWeights& weights,
                           const ResidualStream& in, const int32_t* labels,
                           const LanguageHeadActivations& activations, DeviceHeadSums* sums) const {
  norm_.Forward(context, weights.norm, in, activations.norm, activations.norm_out);
  const int64_t N = context.rows.count();
  const int64_t R = LogitRows(N);
  for (int64_t first = 0; first < N; first += R) {
    ComputeLogits(context, first, std::min(R, N - first), weights, labels, activations, sums);
  }
}

void LanguageHead::Backward(const ComputeContext& context, const LanguageHeadWeights& weights,
                            const int32_t* labels, const LanguageHeadActivations& activations,
                            float* stream_gradient, void* branch_gradient,
                            const LanguageHeadGradients& gradients) const {
  const DType type = context.type;
  const int64_t N = context.rows.count();
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t R = LogitRows(N);
  // A row of the logits' gradient lies at the start of its logits.
  const int64_t stride =
      context.ops.traits().LogitsStride(V) * static_cast<int64_t>(sizeof(float) / SizeOf(type));
  Accumulation accumulation = context.gradients;
  // The last logits first: forward has left them.
  for (int64_t first = (N - 1) / R * R; first >= 0; first -= R) {
    const int64_t count = std::min(R, N - first);
    if (first + R < N) {
      ComputeLogits(context, first, count, weights, labels, activations, /*sums=*/nullptr);
    }
    const Linear head = {.type = type, .rows = count, .in = C, .out = V, .out_stride = stride};
    context.ops.LinearBackwardWeights(head, {.dy = activations.logits,
                                             .x = At(type, activations.norm_out, first * C),
                                             .accumulation = accumulation,
                                             .weight = gradients.head});
    accumulation = Accumulation::kAdd;
    context.ops.LinearBackwardInput(head, activations.logits, weights.head,
                                    At(type, branch_gradient, first * C));
  }
  norm_.Backward(context, weights.norm, activations.norm, ResidualNorm::Upstream::kNone,
                 stream_gradient, branch_gradient, gradients.norm);
}

}  // namespace muster
