#include "worker/nn/transformer/residual_norm.h"

#include <utility>

#include "common/tensor/dtype.h"

namespace muster {
namespace {

bool StreamIsBranch(const ComputeContext& context, const TransformerShape& shape) {
  return context.type == DType::kF32 && shape.dropout == 0 && !context.split_backward;
}

}  // namespace

ResidualNorm::ResidualNorm(const TransformerShape& shape, std::string branch_name)
    : shape_(shape), branch_name_(std::move(branch_name)) {}

NormShape ResidualNorm::KernelShape(const ComputeContext& context) const {
  return {.kind = shape_.norm == TransformerShape::Norm::kRmsNorm ? NormKind::kRmsNorm
                                                                  : NormKind::kLayerNorm,
          .rows = context.own_rows(),
          .width = shape_.width,
          .epsilon = shape_.norm_epsilon};
}

OpDropout ResidualNorm::DropoutOfBranch(const ComputeContext& context) const {
  return DropoutOfOwnRows(context, branch_name_, shape_.dropout, shape_.width);
}

void ResidualNorm::Forward(const ComputeContext& context, const NormWeights& weights,
                           const ResidualStream& in, const NormActivations& kept, void* out) const {
  if (context.own_rows() == 0) return;
  context.ops.Norm(KernelShape(context), context.type,
                   {.x = in.sum,
                    .branch = in.branch,
                    .dropout = DropoutOfBranch(context),
                    .rows_per_example = context.rows.whole_length(),
                    .gain = weights.gain,
                    .bias = weights.bias},
                   {.sum = in.branch == nullptr ? nullptr : kept.sum,
                    .out = out,
                    .mean = kept.mean,
                    .rstd = kept.rstd});
}

void ResidualNorm::Backward(const ComputeContext& context, const NormWeights& weights,
                            const NormActivations& kept, Upstream upstream, float* stream_gradient,
                            void* branch_gradient, const LayerGradients& gradients) const {
  if (context.gradients == Accumulation::kWrite) {
    if (gradients.weight != nullptr) context.ops.Zero(shape_.width, gradients.weight);
    if (gradients.bias != nullptr) context.ops.Zero(shape_.width, gradients.bias);
  }
  if (context.own_rows() == 0) return;
  const bool makes_branch = !branch_name_.empty() && !StreamIsBranch(context, shape_);
  context.ops.NormBackward(KernelShape(context), context.type,
                           {.sum = kept.sum,
                            .gain = weights.gain,
                            .mean = kept.mean,
                            .rstd = kept.rstd,
                            .dout = branch_gradient,
                            .dsum = upstream == Upstream::kStream ? stream_gradient : nullptr,
                            .dropout = DropoutOfBranch(context),
                            .rows_per_example = context.rows.whole_length()},
                           {.dx = stream_gradient,
                            .dbranch = makes_branch ? branch_gradient : nullptr,
                            .gain = gradients.weight,
                            .bias = gradients.bias});
}

const void* ResidualNorm::BranchGradient(const ComputeContext& context,
                                         const TransformerShape& shape,
                                         const float* stream_gradient,
                                         const void* branch_gradient) {
  return StreamIsBranch(context, shape) ? stream_gradient : branch_gradient;
}

}  // namespace muster
