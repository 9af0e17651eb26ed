#include "worker/nn/transformer/transformer_block.h"

#include "absl/strings/str_cat.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/adapters/parallel_linear.h"

namespace muster {
namespace {

std::string AttentionBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".attention");
}

std::string ProbabilitiesName(int64_t layer) {
  return absl::StrCat("block", layer, ".probabilities");
}

}  // namespace

std::string FeedForwardBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".feed_forward");
}

TransformerBlock::TransformerBlock(const TransformerShape& shape, int64_t layer,
                                   const float* rotary_table)
    : shape_(shape),
      window_(shape.WindowOf(layer)),
      probabilities_name_(ProbabilitiesName(layer)),
      rotary_table_(rotary_table),
      norm1_(shape, layer == 0 ? "" : FeedForwardBranchName(layer - 1)),
      norm2_(shape, AttentionBranchName(layer)),
      query_key_norm_(shape),
      dense_(shape, shape.feed_forward),
      adapters_(shape, layer) {
  if (shape.expert_extents().IsExpertBlock(layer)) experts_.emplace(shape, layer);
}

Linear TransformerBlock::Qkv(const ComputeContext& context) const {
  return LinearOf(context, shape_.width, shape_.qkv_width());
}

Linear TransformerBlock::Proj(const ComputeContext& context) const {
  return LinearOf(context, shape_.attention_width(), shape_.width);
}

AttentionShape TransformerBlock::AttentionOf(const TokenRows& rows) const {
  return {.B = rows.sequences,
          .T = rows.length,
          .H = shape_.heads,
          .KV = shape_.kv_heads,
          .D = shape_.head_dim(),
          .token_positions = rows.token_positions,
          .window = window_};
}

RotaryShape TransformerBlock::RotaryOf(const TokenRows& rows) const {
  return {.rows = rows.count(),
          .context = rows.length,
          .first_position = rows.first_position,
          .heads = shape_.heads + shape_.kv_heads,
          .head_dim = shape_.head_dim(),
          .stride = shape_.qkv_width(),
          .token_positions = rows.token_positions};
}

OpDropout TransformerBlock::ProbabilitiesDropout(const ComputeContext& context) const {
  OpDropout dropout = DropoutOf(context, probabilities_name_, shape_.attention_dropout);
  if (context.group != nullptr) {
    dropout.first_head = context.group->rank() * shape_.heads;
    dropout.heads = context.group->size() * shape_.heads;
  }
  return dropout;
}

void TransformerBlock::ComputeQkv(const ComputeContext& context, const BlockWeights& weights,
                                  const BlockActivations& activations,
                                  const BlockScratch& scratch) const {
  const void* const in = AllRowsOf(context, shape_.width, activations.norm1_out, scratch.gathered);
  LinearForward(context.ops, Qkv(context), weights.qkv, in, activations.qkv);
  const BlockAdapters::Arrays adapters = {weights, scratch.adapter};
  AdaptersOf(AdaptedLayer::kQkv, adapters).AddForward(context, in, activations.qkv);
  query_key_norm_.Forward(context, weights.query_key, activations.qkv, activations.unnormed);
  if (rotary_table_ == nullptr) return;
  context.ops.Rotary(RotaryOf(context.rows), context.type, rotary_table_, activations.qkv);
}

void TransformerBlock::Attend(const ComputeContext& context, const AttentionStep& attention,
                              const BlockActivations& activations) const {
  attention.Forward(context, AttentionOf(context.rows),
                    {.qkv = activations.qkv,
                     .out = activations.attention,
                     .logsumexp = activations.logsumexp,
                     .dropout = ProbabilitiesDropout(context)});
}

DenseArrays TransformerBlock::DenseOf(const BlockActivations& activations, void* gathered,
                                      const BlockAdapters::Arrays* adapters) const {
  return {.in = activations.norm2_out,
          .up = activations.up,
          .activated = activations.activated,
          .gathered = gathered,
          .adapters = adapters == nullptr ? nullptr : &adapters_,
          .adapter_arrays = adapters};
}

ResidualStream TransformerBlock::Forward(const ComputeContext& context,
                                         const AttentionStep& attention,
                                         const BlockWeights& weights, const ResidualStream& in,
                                         const BlockActivations& activations,
                                         const BlockScratch& scratch) const {
  const BlockAdapters::Arrays adapters = {weights, scratch.adapter};
  norm1_.Forward(context, weights.norm1, in, activations.norm1, activations.norm1_out);
  ComputeQkv(context, weights, activations, scratch);
  Attend(context, attention, activations);
  RowParallelLinear(context, Proj(context), weights.proj, AdaptersOf(AdaptedLayer::kProj, adapters),
                    activations.attention, scratch.branch, scratch.gathered);
  norm2_.Forward(context, weights.norm2, {activations.norm1.sum, scratch.branch}, activations.norm2,
                 activations.norm2_out);
  if (experts_.has_value()) {
    experts_->Forward(context, weights, activations, scratch, scratch.branch);
  } else {
    const DenseArrays arrays = DenseOf(activations, scratch.gathered, &adapters);
    dense_.MakeActivated(context, weights.up, arrays);
    dense_.MakeOut(context, weights.down, arrays, scratch.branch);
  }
  return {activations.norm2.sum, scratch.branch};
}

void TransformerBlock::ForwardWithoutTokens(const ComputeContext& context,
                                            const BlockWeights& weights,
                                            const BlockActivations& activations,
                                            const BlockScratch& scratch) const {
  const bool alone = context.expert_group == nullptr && context.counting_group == nullptr;
  if (!experts_.has_value() || alone) return;
  experts_->Forward(context, weights, activations, scratch, scratch.branch);
}

void TransformerBlock::BackwardWithoutTokens(Recompute recompute, const ComputeContext& context,
                                             const BlockWeights& weights,
                                             const BlockActivations& activations,
                                             const BlockProductGradients& products,
                                             const BlockScratch& scratch,
                                             const BlockGradients& gradients) const {
  if (!experts_.has_value() || context.expert_group == nullptr) return;
  experts_->RecomputeActivations(recompute, context, weights, activations, scratch);
  experts_->Backward(context, weights, activations, {.products = products, .scratch = scratch},
                     gradients);
}

void TransformerBlock::RecomputeActivations(Recompute recompute, const ComputeContext& context,
                                            const AttentionStep& attention,
                                            const BlockWeights& weights,
                                            const BlockActivations& activations,
                                            const BlockScratch& scratch) const {
  if (recompute == Recompute::kNone) return;
  const BlockAdapters::Arrays adapters = {weights, scratch.adapter};
  norm1_.Forward(context, weights.norm1, {activations.norm1.sum, nullptr}, activations.norm1,
                 activations.norm1_out);
  if (recompute == Recompute::kFull) ComputeQkv(context, weights, activations, scratch);
  Attend(context, attention, activations);
  ResidualStream middle = {activations.norm2.sum, nullptr};
  if (recompute == Recompute::kFull) {
    // Not scratch.branch, which holds a gradient by now.
    RowParallelLinear(context, Proj(context), weights.proj,
                      AdaptersOf(AdaptedLayer::kProj, adapters), activations.attention,
                      scratch.inner, scratch.gathered);
    middle = {activations.norm1.sum, scratch.inner};
  }
  norm2_.Forward(context, weights.norm2, middle, activations.norm2, activations.norm2_out);
  if (experts_.has_value()) {
    experts_->RecomputeActivations(recompute, context, weights, activations, scratch);
  } else if (recompute == Recompute::kFull) {
    dense_.MakeActivated(context, weights.up, DenseOf(activations, scratch.gathered, &adapters));
  } else {
    dense_.Activate(context, DenseOf(activations, scratch.gathered));
  }
}

void TransformerBlock::Backward(const ComputeContext& context,
                                const TrainedAttentionStep& attention, const BlockWeights& weights,
                                const BlockActivations& activations,
                                const BlockBackwardArrays& arrays,
                                const BlockGradients& gradients) const {
  constexpr auto kStream = ResidualNorm::Upstream::kStream;
  BackwardFeedForward(context, weights, activations, arrays, gradients);
  norm2_.Backward(context, weights.norm2, activations.norm2, kStream, arrays.stream,
                  arrays.products.proj, gradients.norm2);
  BackwardAttention(context, attention, weights, activations, arrays, gradients);
  norm1_.Backward(context, weights.norm1, activations.norm1, kStream, arrays.stream, arrays.branch,
                  gradients.norm1);
}

void TransformerBlock::BackwardFeedForward(const ComputeContext& context,
                                           const BlockWeights& weights,
                                           const BlockActivations& activations,
                                           const BlockBackwardArrays& arrays,
                                           const BlockGradients& gradients) const {
  const void* const dout =
      ResidualNorm::BranchGradient(context, shape_, arrays.stream, arrays.products.down);
  if (experts_.has_value()) {
    experts_->Backward(context, weights, activations,
                       {.dout = dout, .products = arrays.products, .scratch = arrays.scratch},
                       gradients);
    return;
  }
  const BlockAdapters::Arrays adapters = {weights, arrays.scratch.adapter, &gradients};
  dense_.Backward(context, weights.up, weights.down,
                  DenseOf(activations, arrays.scratch.gathered, &adapters),
                  {.dout = dout,
                   .inner = arrays.scratch.inner,
                   .dup = arrays.products.up,
                   .din = arrays.products.proj},
                  gradients.up, gradients.down);
}

void TransformerBlock::BackwardAttention(const ComputeContext& context,
                                         const TrainedAttentionStep& attention,
                                         const BlockWeights& weights,
                                         const BlockActivations& activations,
                                         const BlockBackwardArrays& arrays,
                                         const BlockGradients& gradients) const {
  const void* branch_gradient =
      AllRowsOf(context, shape_.width,
                ResidualNorm::BranchGradient(context, shape_, arrays.stream, arrays.products.proj),
                arrays.scratch.gathered);
  void* const qkv_gradient = arrays.products.qkv;
  const Linear proj = Proj(context);
  const BlockAdapters::Arrays adapter_arrays = {weights, arrays.scratch.adapter, &gradients};
  const LayerAdapters proj_adapters = AdaptersOf(AdaptedLayer::kProj, adapter_arrays);
  BackwardWeightsAtOnce(context, proj, branch_gradient, activations.attention, gradients.proj);
  proj_adapters.BackwardWeights(context, activations.attention, branch_gradient);
  context.ops.LinearBackwardInput(proj, branch_gradient, weights.proj.weight, arrays.scratch.inner);
  proj_adapters.AddInputGradient(context, branch_gradient, arrays.scratch.inner);
  attention.Backward(context, AttentionOf(context.rows),
                     {.qkv = activations.qkv,
                      .out = activations.attention,
                      .logsumexp = activations.logsumexp,
                      .dropout = ProbabilitiesDropout(context),
                      .dout = arrays.scratch.inner,
                      .dqkv = qkv_gradient});
  if (rotary_table_ != nullptr) {
    context.ops.RotaryBackward(RotaryOf(context.rows), context.type, rotary_table_, qkv_gradient);
  }
  query_key_norm_.Backward(context, weights.query_key, activations.unnormed, qkv_gradient,
                           gradients.query_key);
  const Linear qkv = Qkv(context);
  const LayerAdapters qkv_adapters = AdaptersOf(AdaptedLayer::kQkv, adapter_arrays);
  ColumnWeightsAtOnce(context, qkv, qkv_gradient, activations.norm1_out, arrays.scratch.gathered,
                      gradients.qkv, qkv_adapters);
  RowParallelLinearInput(context, qkv, weights.qkv.weight, qkv_adapters, qkv_gradient,
                         arrays.branch, arrays.scratch.gathered);
}

void TransformerBlock::BackwardWeights(const ComputeContext& context,
                                       const BlockActivations& activations,
                                       const BlockProductGradients& products,
                                       const BlockScratch& scratch,
                                       const BlockGradients& gradients) const {
  if (experts_.has_value()) {
    experts_->BackwardWeights(context, activations, products.down, products, scratch, gradients);
  } else {
    dense_.BackwardWeights(context, DenseOf(activations, scratch.gathered), products.down,
                           products.up, gradients.up, gradients.down);
  }
  LinearBackwardWeights(context, Proj(context),
                        AllRowsOf(context, shape_.width, products.proj, scratch.gathered),
                        activations.attention, gradients.proj);
  LinearBackwardWeights(context, Qkv(context), products.qkv,
                        AllRowsOf(context, shape_.width, activations.norm1_out, scratch.gathered),
                        gradients.qkv);
}

}  // namespace muster
