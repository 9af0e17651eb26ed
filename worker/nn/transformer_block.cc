#include "worker/nn/transformer_block.h"

#include "absl/strings/str_cat.h"
#include "common/kernels/activation.h"
#include "common/kernels/attention.h"
#include "common/kernels/rotary.h"
#include "worker/nn/linear_rows.h"

namespace muster {
namespace {

AttentionShape AttentionOf(const TransformerShape& shape, const TokenRows& rows) {
  AttentionShape attention;
  attention.B = rows.sequences;
  attention.T = rows.length;
  attention.H = shape.heads;
  attention.KV = shape.kv_heads;
  attention.D = shape.head_dim();
  return attention;
}

RotaryShape RotaryOf(const TransformerShape& shape, const TokenRows& rows) {
  RotaryShape rotary;
  rotary.rows = rows.count();
  rotary.context = rows.length;
  rotary.heads = shape.heads + shape.kv_heads;
  rotary.head_dim = shape.head_dim();
  rotary.stride = shape.qkv_width();
  return rotary;
}

LinearShape QkvOf(const TransformerShape& shape, const TokenRows& rows) {
  return {.rows = rows.count(), .in = shape.width, .out = shape.qkv_width()};
}

LinearShape ProjOf(const TransformerShape& shape, const TokenRows& rows) {
  return {.rows = rows.count(), .in = shape.width, .out = shape.width};
}

LinearShape UpOf(const TransformerShape& shape, const TokenRows& rows) {
  return {.rows = rows.count(), .in = shape.width, .out = shape.up_width()};
}

LinearShape DownOf(const TransformerShape& shape, const TokenRows& rows) {
  return {.rows = rows.count(), .in = shape.feed_forward, .out = shape.width};
}

std::string AttentionBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".attention");
}

std::string ProbabilitiesName(int64_t layer) {
  return absl::StrCat("block", layer, ".probabilities");
}

AttentionDropout DropoutOf(const absl::optional<DropoutMask>& mask, const TokenRows& rows) {
  return {.mask = mask.has_value() ? &*mask : nullptr, .first_example = rows.first_example};
}

}  // namespace

std::string FeedForwardBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".feed_forward");
}

template <typename T>
TransformerBlock<T>::TransformerBlock(const TransformerShape& shape, int64_t layer,
                                      const float* rotary_table)
    : shape_(shape),
      probabilities_name_(ProbabilitiesName(layer)),
      rotary_table_(rotary_table),
      norm1_(shape, FeedForwardBranchName(layer - 1)),
      norm2_(shape, AttentionBranchName(layer)) {}

template <typename T>
void TransformerBlock<T>::ComputeQkv(const TokenRows& rows, const BlockWeights<T>& weights,
                                     const BlockActivations<T>& activations) const {
  LinearForward(QkvOf(shape_, rows), activations.norm1_out, weights.qkv.weight, weights.qkv.bias,
                activations.qkv);
  if (rotary_table_ != nullptr) {
    Rotary<T>(RotaryOf(shape_, rows), rotary_table_, activations.qkv);
  }
}

template <typename T>
absl::optional<DropoutMask> TransformerBlock<T>::ProbabilitiesMask(
    const LayerContext& context) const {
  if (shape_.attention_dropout == 0 || context.pass != Pass::kTraining) return absl::nullopt;
  return DropoutMask(context.seed, probabilities_name_, context.clock, shape_.attention_dropout);
}

template <typename T>
void TransformerBlock<T>::Attend(const LayerContext& context, const TokenRows& rows,
                                 const BlockActivations<T>& activations) const {
  const absl::optional<DropoutMask> mask = ProbabilitiesMask(context);
  Attention<T>(AttentionOf(shape_, rows), activations.qkv, activations.attention,
               activations.logsumexp, DropoutOf(mask, rows));
}

template <typename T>
void TransformerBlock<T>::Project(const TokenRows& rows, const BlockWeights<T>& weights,
                                  const BlockActivations<T>& activations, T* branch) const {
  LinearForward(ProjOf(shape_, rows), activations.attention, weights.proj.weight, weights.proj.bias,
                branch);
}

template <typename T>
void TransformerBlock<T>::ComputeUp(const TokenRows& rows, const BlockWeights<T>& weights,
                                    const BlockActivations<T>& activations) const {
  LinearForward(UpOf(shape_, rows), activations.norm2_out, weights.up.weight, weights.up.bias,
                activations.up);
}

template <typename T>
void TransformerBlock<T>::Activate(const TokenRows& rows,
                                   const BlockActivations<T>& activations) const {
  if (shape_.activation == TransformerShape::Activation::kSwiGlu) {
    SwiGlu<T>(rows.count(), shape_.feed_forward, activations.up, activations.activated);
  } else {
    Gelu<T>(rows.count() * shape_.feed_forward, activations.up, activations.activated);
  }
}

template <typename T>
ResidualStream<T> TransformerBlock<T>::Forward(const LayerContext& context, const TokenRows& rows,
                                               const BlockWeights<T>& weights,
                                               const ResidualStream<T>& in,
                                               const BlockActivations<T>& activations,
                                               const BlockScratch<T>& scratch) const {
  norm1_.Forward(context, rows, weights.norm1, in, activations.norm1, activations.norm1_out);
  ComputeQkv(rows, weights, activations);
  Attend(context, rows, activations);
  Project(rows, weights, activations, scratch.branch);
  norm2_.Forward(context, rows, weights.norm2, {activations.norm1.sum, scratch.branch},
                 activations.norm2, activations.norm2_out);
  ComputeUp(rows, weights, activations);
  Activate(rows, activations);
  LinearForward(DownOf(shape_, rows), activations.activated, weights.down.weight, weights.down.bias,
                scratch.branch);
  return {activations.norm2.sum, scratch.branch};
}

template <typename T>
void TransformerBlock<T>::Again(Recompute recompute, const LayerContext& context,
                                const TokenRows& rows, const BlockWeights<T>& weights,
                                const BlockActivations<T>& activations,
                                const BlockScratch<T>& scratch) const {
  if (recompute == Recompute::kNone) return;
  norm1_.Forward(context, rows, weights.norm1, {activations.norm1.sum, nullptr}, activations.norm1,
                 activations.norm1_out);
  if (recompute == Recompute::kFull) ComputeQkv(rows, weights, activations);
  Attend(context, rows, activations);
  ResidualStream<T> middle = {activations.norm2.sum, nullptr};
  if (recompute == Recompute::kFull) {
    // Not scratch.branch, which holds a gradient by now.
    Project(rows, weights, activations, scratch.inner);
    middle = {activations.norm1.sum, scratch.inner};
  }
  norm2_.Forward(context, rows, weights.norm2, middle, activations.norm2, activations.norm2_out);
  if (recompute == Recompute::kFull) ComputeUp(rows, weights, activations);
  Activate(rows, activations);
}

template <typename T>
void TransformerBlock<T>::Backward(const LayerContext& context, const TokenRows& rows,
                                   const BlockWeights<T>& weights,
                                   const BlockActivations<T>& activations,
                                   const BlockScratch<T>& scratch, float* stream_gradient,
                                   const BlockGradients& gradients) const {
  BackwardFeedForward(context, rows, weights, activations, scratch, stream_gradient, gradients);
  norm2_.Backward(context, rows, weights.norm2, activations.norm2, scratch.branch,
                  ResidualNorm<T>::Upstream::kStream, stream_gradient, scratch.branch,
                  gradients.norm2);
  BackwardAttention(context, rows, weights, activations, scratch, stream_gradient, gradients);
  norm1_.Backward(context, rows, weights.norm1, activations.norm1, scratch.branch,
                  ResidualNorm<T>::Upstream::kStream, stream_gradient, scratch.branch,
                  gradients.norm1);
}

template <typename T>
void TransformerBlock<T>::BackwardFeedForward(const LayerContext& context, const TokenRows& rows,
                                              const BlockWeights<T>& weights,
                                              const BlockActivations<T>& activations,
                                              const BlockScratch<T>& scratch,
                                              const float* stream_gradient,
                                              const BlockGradients& gradients) const {
  const T* branch_gradient =
      ResidualNorm<T>::BranchGradient(shape_, stream_gradient, scratch.branch);
  const LinearShape down = DownOf(shape_, rows);
  LinearBackwardWeights<T>(down, branch_gradient, activations.activated, context.gradients,
                           gradients.down);
  LinearBackwardInput<T>(down, branch_gradient, weights.down.weight, scratch.inner);
  T* up_gradient = scratch.inner;
  if (shape_.activation == TransformerShape::Activation::kSwiGlu) {
    up_gradient = scratch.wide;
    SwiGluBackward<T>(rows.count(), shape_.feed_forward, activations.up, scratch.inner,
                      up_gradient);
  } else {
    GeluBackward<T>(rows.count() * shape_.feed_forward, activations.up, scratch.inner, up_gradient);
  }
  const LinearShape up = UpOf(shape_, rows);
  LinearBackwardWeights<T>(up, up_gradient, activations.norm2_out, context.gradients, gradients.up);
  LinearBackwardInput<T>(up, up_gradient, weights.up.weight, scratch.branch);
}

template <typename T>
void TransformerBlock<T>::BackwardAttention(const LayerContext& context, const TokenRows& rows,
                                            const BlockWeights<T>& weights,
                                            const BlockActivations<T>& activations,
                                            const BlockScratch<T>& scratch,
                                            const float* stream_gradient,
                                            const BlockGradients& gradients) const {
  const T* branch_gradient =
      ResidualNorm<T>::BranchGradient(shape_, stream_gradient, scratch.branch);
  const LinearShape proj = ProjOf(shape_, rows);
  LinearBackwardWeights<T>(proj, branch_gradient, activations.attention, context.gradients,
                           gradients.proj);
  LinearBackwardInput<T>(proj, branch_gradient, weights.proj.weight, scratch.inner);
  const absl::optional<DropoutMask> mask = ProbabilitiesMask(context);
  AttentionBackward<T>(AttentionOf(shape_, rows), activations.qkv, activations.attention,
                       activations.logsumexp, scratch.inner, scratch.wide, DropoutOf(mask, rows));
  if (rotary_table_ != nullptr) {
    RotaryBackward<T>(RotaryOf(shape_, rows), rotary_table_, scratch.wide);
  }
  const LinearShape qkv = QkvOf(shape_, rows);
  LinearBackwardWeights<T>(qkv, scratch.wide, activations.norm1_out, context.gradients,
                           gradients.qkv);
  LinearBackwardInput<T>(qkv, scratch.wide, weights.qkv.weight, scratch.branch);
}

template class TransformerBlock<float>;
template class TransformerBlock<BFloat16>;
template class TransformerBlock<Float16>;

}  // namespace muster
