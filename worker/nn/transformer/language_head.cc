#include "worker/nn/transformer/language_head.h"

#include <algorithm>

#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/arrays/tensor_rows.h"
#include "worker/nn/transformer/arrays/typed_array.h"
#include "worker/nn/transformer/transformer_block.h"

namespace muster {
LanguageHead::LanguageHead(const TransformerShape& shape, int64_t tokens)
    : shape_(shape), tokens_(tokens), norm_(shape, FeedForwardBranchName(shape.layers - 1)) {}

void LanguageHead::AddLossOfRanks(const ComputeContext& context, const CrossEntropyShape& shape,
                                  const CrossEntropyArrays& arrays,
                                  const LanguageHeadActivations& activations) const {
  TensorGroup& group = *context.group;
  const int64_t first_token = group.rank() * shape.vocabulary;
  VocabularyShareShape share = {.columns = shape, .first_token = static_cast<int32_t>(first_token)};
  share.columns.tokens = std::clamp<int64_t>(tokens_ - first_token, 0, shape.vocabulary);
  context.ops.SoftmaxParts(share, arrays.logits, arrays.labels, activations.own_parts);
  constexpr auto kFloats = static_cast<int64_t>(sizeof(SoftmaxPart) / sizeof(float));
  group.Gather(DType::kF32, shape.rows * kFloats, activations.own_parts, activations.parts);
  context.ops.CrossEntropyOfParts(
      share, context.type, {.columns = arrays, .ranks = group.size(), .parts = activations.parts});
}

void LanguageHead::ComputeLoss(const ComputeContext& context, int64_t first, int64_t count,
                               const void* in, const LanguageHeadWeights& weights,
                               const LanguageHeadLoss& loss,
                               const LanguageHeadActivations& activations) const {
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t stride = context.ops.traits().LogitsStride(V);
  context.ops.LinearForward(
      {.type = context.type, .rows = count, .in = C, .out = V, .out_stride = stride},
      {.x = At(context.type, in, first * C),
       .weight = weights.head,
       .result = LinearForwardArrays::Result::kF32,
       .y = activations.logits});
  CrossEntropyShape shape = {
      .rows = count, .vocabulary = V, .tokens = shape_.vocabulary, .logits_stride = stride};
  if (context.pass == Pass::kTraining) {
    shape.terms = LossTerms::Of(shape_.label_smoothing, shape_.logits_z, tokens_);
  }
  const CrossEntropyArrays arrays = {
      .logits = activations.logits,
      .labels = loss.labels + first,
      .gradient = context.pass == Pass::kTraining ? activations.logits : nullptr,
      .gradient_scale = context.loss_scale,
      .sums = loss.sums};
  if (context.group != nullptr) {
    AddLossOfRanks(context, shape, arrays, activations);
  } else {
    context.ops.CrossEntropy(shape, context.type, arrays);
  }
}

void LanguageHead::Forward(const ComputeContext& context, const LanguageHeadWeights& weights,
                           const ResidualStream& in, const LanguageHeadLoss& loss,
                           const LanguageHeadActivations& activations, void* block) const {
  norm_.Forward(context, weights.norm, in, activations.norm, activations.norm_out);
  const void* const rows =
      AllRows(context, context.type, shape_.width, activations.norm_out, block);
  const int64_t N = context.rows.count();
  const int64_t R = activations.logit_rows;
  for (int64_t first = 0; first < N; first += R) {
    ComputeLoss(context, first, std::min(R, N - first), rows, weights, loss, activations);
  }
}

void LanguageHead::ForwardBackward(const ComputeContext& context,
                                   const LanguageHeadWeights& weights, const ResidualStream& in,
                                   const LanguageHeadLoss& loss,
                                   const LanguageHeadActivations& activations, void* block,
                                   const LanguageHeadGradients& gradients) const {
  norm_.Forward(context, weights.norm, in, activations.norm, activations.norm_out);
  const DType type = context.type;
  const int64_t N = context.rows.count();
  const int64_t C = shape_.width;
  const int64_t V = shape_.vocabulary_rows();
  const int64_t R = activations.logit_rows;
  const void* const rows = AllRows(context, type, C, activations.norm_out, block);
  // Where rows were gathered, the gradients of those done take their place.
  void* const row_gradients = SummandRows(context, gradients.branch, block);
  // A row of the logits' gradient lies at the start of its logits.
  const int64_t stride =
      context.ops.traits().LogitsStride(V) * static_cast<int64_t>(sizeof(float) / SizeOf(type));
  Accumulation accumulation = context.gradients;
  for (int64_t first = (N - 1) / R * R; first >= 0; first -= R) {
    const int64_t count = std::min(R, N - first);
    ComputeLoss(context, first, count, rows, weights, loss, activations);
    const Linear head = {.type = type, .rows = count, .in = C, .out = V, .out_stride = stride};
    if (gradients.head != nullptr) {
      context.ops.LinearBackwardWeights(head, {.dy = activations.logits,
                                               .x = At(type, rows, first * C),
                                               .accumulation = accumulation,
                                               .weight = gradients.head});
    }
    accumulation = Accumulation::kAdd;
    context.ops.LinearBackwardInput(head, activations.logits, weights.head,
                                    At(type, row_gradients, first * C));
  }
  SumRows(context, type, C, gradients.branch, block);
  norm_.Backward(context, weights.norm, activations.norm, ResidualNorm::Upstream::kNone,
                 gradients.stream, gradients.branch, gradients.norm);
}

}  // namespace muster
