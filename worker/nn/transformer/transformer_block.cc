#include "worker/nn/transformer/transformer_block.h"

#include "absl/strings/str_cat.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/tensor_rows.h"

namespace muster {
namespace {

std::string AttentionBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".attention");
}

std::string ProbabilitiesName(int64_t layer) {
  return absl::StrCat("block", layer, ".probabilities");
}

Linear LinearOf(const ComputeContext& context, int64_t in, int64_t out) {
  return {.type = context.type, .rows = context.rows.count(), .in = in, .out = out};
}

void LinearForward(Ops& ops, const Linear& linear, const LinearWeights& weights, const void* x,
                   void* y) {
  ops.LinearForward(linear, {.x = x, .weight = weights.weight, .bias = weights.bias, .y = y});
}

void LinearBackwardWeights(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients) {
  context.ops.LinearBackwardWeights(linear, {.dy = dy,
                                             .x = x,
                                             .accumulation = context.gradients,
                                             .weight = gradients.weight,
                                             .bias = gradients.bias});
}

// While dy and x are in caches, and dy need not be kept.
void BackwardWeightsAtOnce(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients) {
  if (!context.split_backward) LinearBackwardWeights(context, linear, dy, x, gradients);
}

}  // namespace

std::string FeedForwardBranchName(int64_t layer) {
  return absl::StrCat("block", layer, ".feed_forward");
}

TransformerBlock::TransformerBlock(const TransformerShape& shape, int64_t layer,
                                   const float* rotary_table)
    : shape_(shape),
      probabilities_name_(ProbabilitiesName(layer)),
      rotary_table_(rotary_table),
      norm1_(shape, layer == 0 ? "" : FeedForwardBranchName(layer - 1)),
      norm2_(shape, AttentionBranchName(layer)) {}

Linear TransformerBlock::Qkv(const ComputeContext& context) const {
  return LinearOf(context, shape_.width, shape_.qkv_width());
}

Linear TransformerBlock::Proj(const ComputeContext& context) const {
  return LinearOf(context, shape_.heads * shape_.head_dim(), shape_.width);
}

Linear TransformerBlock::Up(const ComputeContext& context) const {
  return LinearOf(context, shape_.width, shape_.up_width());
}

Linear TransformerBlock::Down(const ComputeContext& context) const {
  return LinearOf(context, shape_.feed_forward, shape_.width);
}

AttentionShape TransformerBlock::AttentionOf(const TokenRows& rows) const {
  return {.B = rows.sequences,
          .T = rows.length,
          .H = shape_.heads,
          .KV = shape_.kv_heads,
          .D = shape_.head_dim(),
          .token_positions = rows.token_positions};
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

const void* TransformerBlock::AllRowsOf(const ComputeContext& context, const void* own,
                                        void* block) const {
  return AllRows(context, context.type, shape_.width, own, block);
}

void TransformerBlock::RowParallelLinear(const ComputeContext& context, const Linear& linear,
                                         const LinearWeights& weights, const void* x, void* own,
                                         void* block) const {
  LinearForward(context.ops, linear, weights, x, SummandRows(context, own, block));
  SumRows(context, context.type, shape_.width, own, block);
}

void TransformerBlock::RowParallelLinearInput(const ComputeContext& context, const Linear& linear,
                                              const void* weight, const void* dy, void* own,
                                              void* block) const {
  context.ops.LinearBackwardInput(linear, dy, weight, SummandRows(context, own, block));
  SumRows(context, context.type, shape_.width, own, block);
}

void TransformerBlock::ComputeQkv(const ComputeContext& context, const BlockWeights& weights,
                                  const BlockActivations& activations, void* block) const {
  LinearForward(context.ops, Qkv(context), weights.qkv,
                AllRowsOf(context, activations.norm1_out, block), activations.qkv);
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

void TransformerBlock::ComputeUp(const ComputeContext& context, const BlockWeights& weights,
                                 const BlockActivations& activations, void* block) const {
  const Linear up = Up(context);
  const void* const in = AllRowsOf(context, activations.norm2_out, block);
  if (swiglu()) {
    LinearForward(context.ops, up, weights.up, in, activations.up);
    context.ops.SwiGlu(context.type, up.rows, shape_.feed_forward, activations.up,
                       activations.activated);
  } else {
    context.ops.LinearGelu(up, {.x = in,
                                .weight = weights.up.weight,
                                .bias = weights.up.bias,
                                .before = activations.up,
                                .after = activations.activated});
  }
}

ResidualStream TransformerBlock::Forward(const ComputeContext& context,
                                         const AttentionStep& attention,
                                         const BlockWeights& weights, const ResidualStream& in,
                                         const BlockActivations& activations,
                                         const BlockScratch& scratch) const {
  norm1_.Forward(context, weights.norm1, in, activations.norm1, activations.norm1_out);
  ComputeQkv(context, weights, activations, scratch.gathered);
  Attend(context, attention, activations);
  RowParallelLinear(context, Proj(context), weights.proj, activations.attention, scratch.branch,
                    scratch.gathered);
  norm2_.Forward(context, weights.norm2, {activations.norm1.sum, scratch.branch}, activations.norm2,
                 activations.norm2_out);
  ComputeUp(context, weights, activations, scratch.gathered);
  RowParallelLinear(context, Down(context), weights.down, activations.activated, scratch.branch,
                    scratch.gathered);
  return {activations.norm2.sum, scratch.branch};
}

void TransformerBlock::RecomputeActivations(Recompute recompute, const ComputeContext& context,
                                            const AttentionStep& attention,
                                            const BlockWeights& weights,
                                            const BlockActivations& activations,
                                            const BlockScratch& scratch) const {
  if (recompute == Recompute::kNone) return;
  norm1_.Forward(context, weights.norm1, {activations.norm1.sum, nullptr}, activations.norm1,
                 activations.norm1_out);
  if (recompute == Recompute::kFull) {
    ComputeQkv(context, weights, activations, scratch.gathered);
  }
  Attend(context, attention, activations);
  ResidualStream middle = {activations.norm2.sum, nullptr};
  if (recompute == Recompute::kFull) {
    // Not scratch.branch, which holds a gradient by now.
    RowParallelLinear(context, Proj(context), weights.proj, activations.attention, scratch.inner,
                      scratch.gathered);
    middle = {activations.norm1.sum, scratch.inner};
  }
  norm2_.Forward(context, weights.norm2, middle, activations.norm2, activations.norm2_out);
  const int64_t N = context.rows.count();
  const int64_t F = shape_.feed_forward;
  if (recompute == Recompute::kFull) {
    ComputeUp(context, weights, activations, scratch.gathered);
  } else if (swiglu()) {
    context.ops.SwiGlu(context.type, N, F, activations.up, activations.activated);
  } else {
    context.ops.Gelu(context.type, N * F, activations.up, activations.activated);
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
  const void* branch_gradient = AllRowsOf(
      context, ResidualNorm::BranchGradient(context, shape_, arrays.stream, arrays.products.down),
      arrays.gathered);
  const Linear down = Down(context);
  BackwardWeightsAtOnce(context, down, branch_gradient, activations.activated, gradients.down);
  if (swiglu()) {
    context.ops.LinearBackwardInput(down, branch_gradient, weights.down.weight, arrays.inner);
    context.ops.SwiGluBackward(context.type, down.rows, shape_.feed_forward, activations.up,
                               arrays.inner, arrays.products.up);
  } else {
    context.ops.LinearGeluBackwardInput(down, {.dy = branch_gradient,
                                               .weight = weights.down.weight,
                                               .before = activations.up,
                                               .dbefore = arrays.products.up});
  }
  const Linear up = Up(context);
  ColumnWeightsAtOnce(context, up, arrays.products.up, activations.norm2_out, arrays.gathered,
                      gradients.up);
  RowParallelLinearInput(context, up, weights.up.weight, arrays.products.up, arrays.products.proj,
                         arrays.gathered);
}

void TransformerBlock::BackwardAttention(const ComputeContext& context,
                                         const TrainedAttentionStep& attention,
                                         const BlockWeights& weights,
                                         const BlockActivations& activations,
                                         const BlockBackwardArrays& arrays,
                                         const BlockGradients& gradients) const {
  const void* branch_gradient = AllRowsOf(
      context, ResidualNorm::BranchGradient(context, shape_, arrays.stream, arrays.products.proj),
      arrays.gathered);
  void* const qkv_gradient = arrays.products.qkv;
  const Linear proj = Proj(context);
  BackwardWeightsAtOnce(context, proj, branch_gradient, activations.attention, gradients.proj);
  context.ops.LinearBackwardInput(proj, branch_gradient, weights.proj.weight, arrays.inner);
  attention.Backward(context, AttentionOf(context.rows),
                     {.qkv = activations.qkv,
                      .out = activations.attention,
                      .logsumexp = activations.logsumexp,
                      .dropout = ProbabilitiesDropout(context),
                      .dout = arrays.inner,
                      .dqkv = qkv_gradient});
  if (rotary_table_ != nullptr) {
    context.ops.RotaryBackward(RotaryOf(context.rows), context.type, rotary_table_, qkv_gradient);
  }
  const Linear qkv = Qkv(context);
  ColumnWeightsAtOnce(context, qkv, qkv_gradient, activations.norm1_out, arrays.gathered,
                      gradients.qkv);
  RowParallelLinearInput(context, qkv, weights.qkv.weight, qkv_gradient, arrays.branch,
                         arrays.gathered);
}

void TransformerBlock::BackwardWeights(const ComputeContext& context,
                                       const BlockActivations& activations,
                                       const BlockProductGradients& products, void* gathered,
                                       const BlockGradients& gradients) const {
  LinearBackwardWeights(context, Down(context), AllRowsOf(context, products.down, gathered),
                        activations.activated, gradients.down);
  LinearBackwardWeights(context, Up(context), products.up,
                        AllRowsOf(context, activations.norm2_out, gathered), gradients.up);
  LinearBackwardWeights(context, Proj(context), AllRowsOf(context, products.proj, gathered),
                        activations.attention, gradients.proj);
  LinearBackwardWeights(context, Qkv(context), products.qkv,
                        AllRowsOf(context, activations.norm1_out, gathered), gradients.qkv);
}

void TransformerBlock::ColumnWeightsAtOnce(const ComputeContext& context, const Linear& linear,
                                           const void* dy, const void* own_x, void* block,
                                           const LayerGradients& gradients) const {
  if (context.split_backward) return;
  LinearBackwardWeights(context, linear, dy, AllRowsOf(context, own_x, block), gradients);
}

}  // namespace muster
