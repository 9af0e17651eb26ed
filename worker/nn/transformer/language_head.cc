#include "worker/nn/transformer/language_head.h"

#include <algorithm>
#include <cstddef>

#include "worker/nn/transformer/transformer_block.h"

namespace muster {
namespace {

void* At(DType type, void* array, int64_t element) {
  return static_cast<std::byte*>(array) + element * static_cast<int64_t>(SizeOf(type));
}

}  // namespace

LanguageHead::LanguageHead(const TransformerShape& shape)
    : shape_(shape), norm_(shape, FeedForwardBranchName(shape.layers - 1)) {}

void LanguageHead::ComputeLoss(const ComputeContext& context, int64_t first, int64_t count,
                               const LanguageHeadWeights& weights, const LanguageHeadLoss& loss,
                               const LanguageHeadActivations& activations) const {
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
       .labels = loss.labels + first,
       .gradient = context.pass == Pass::kTraining ? activations.logits : nullptr,
       .gradient_scale = context.loss_scale,
       .sums = loss.sums});
}

void LanguageHead::Forward(const ComputeContext& context, const LanguageHeadWeights& weights,
                           const ResidualStream& in, const LanguageHeadLoss& loss,
                           const LanguageHeadActivations& activations) const {
  norm_.Forward(context, weights.norm, in, activations.norm, activations.norm_out);
  const int64_t N = context.rows.count();
  const int64_t R = activations.logit_rows;
  for (int64_t first = 0; first < N; first += R) {
    ComputeLoss(context, first, std::min(R, N - first), weights, loss, activations);
  }
}

void LanguageHead::ForwardBackward(const ComputeContext& context,
                                   const LanguageHeadWeights& weights, const ResidualStream& in,
                                   const LanguageHeadLoss& loss,
                                   const LanguageHeadActivations& activations,
                                   const LanguageHeadGradients& gradients) const {
  norm_.Forward(context, weights.norm, in, activations.norm, activations.norm_out);
  const DType type = context.type;
  const int64_t N = context.rows.count();
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t R = activations.logit_rows;
  // A row of the logits' gradient lies at the start of its logits.
  const int64_t stride =
      context.ops.traits().LogitsStride(V) * static_cast<int64_t>(sizeof(float) / SizeOf(type));
  Accumulation accumulation = context.gradients;
  for (int64_t first = (N - 1) / R * R; first >= 0; first -= R) {
    const int64_t count = std::min(R, N - first);
    ComputeLoss(context, first, count, weights, loss, activations);
    const Linear head = {.type = type, .rows = count, .in = C, .out = V, .out_stride = stride};
    context.ops.LinearBackwardWeights(head, {.dy = activations.logits,
                                             .x = At(type, activations.norm_out, first * C),
                                             .accumulation = accumulation,
                                             .weight = gradients.head});
    accumulation = Accumulation::kAdd;
    context.ops.LinearBackwardInput(head, activations.logits, weights.head,
                                    At(type, gradients.branch, first * C));
  }
  norm_.Backward(context, weights.norm, activations.norm, ResidualNorm::Upstream::kNone,
                 gradients.stream, gradients.branch, gradients.norm);
}

}  // namespace muster
