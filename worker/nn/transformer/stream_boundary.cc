#include "worker/nn/transformer/stream_boundary.h"

#include "common/tensor/dtype.h"
#include "worker/nn/transformer/residual_norm.h"
#include "worker/nn/transformer/transformer_block.h"

namespace muster {

size_t StreamBoundary::Bytes(const ComputeContext& context) const {
  return Elements(context) * SizeOf(context.type);
}

OpDropout StreamBoundary::DropoutOfBranch(const ComputeContext& context, int unit) const {
  return DropoutOfOwnRows(context, FeedForwardBranchName(unit - 1), shape_.dropout, shape_.width);
}

void StreamBoundary::Narrow(const ComputeContext& context, const float* x, void* y) const {
  context.ops.Convert(Elements(context), DType::kF32, x, context.type, y);
}

void StreamBoundary::Widen(const ComputeContext& context, const void* x, float* y) const {
  context.ops.Convert(Elements(context), context.type, x, DType::kF32, y);
}

void StreamBoundary::ReadOutput(const ComputeContext& context, int unit, const ResidualStream& out,
                                const TransformerArrays& arrays, absl::Span<std::byte> to) const {
  if (to.empty()) return;
  if (out.branch == nullptr) return Narrow(context, out.sum, to.data());
  const bool wide = context.type == DType::kF32;
  float* sum = wide ? reinterpret_cast<float*>(to.data()) : arrays.stream_gradient;
  // Nobody reads the stream any more in an evaluation, which has no gradient.
  if (sum == nullptr) sum = const_cast<float*>(out.sum);
  // The operation that would add the branch on the next stage adds it here. What it makes besides
  // is thrown away, so any numbers will do for its gains.
  context.ops.Norm(
      {.kind = NormKind::kRmsNorm,
       .rows = context.own_rows(),
       .width = shape_.width,
       .epsilon = shape_.norm_epsilon},
      context.type,
      {.x = out.sum,
       .branch = out.branch,
       .dropout = DropoutOfBranch(context, unit),
       .rows_per_example = context.rows.whole_length(),
       .gain = out.sum},
      {.sum = sum, .out = const_cast<void*>(out.branch), .rstd = arrays.head.norm.rstd});
  if (!wide) Narrow(context, sum, to.data());
}

ResidualStream StreamBoundary::SetOutput(const ComputeContext& context, int unit,
                                         absl::Span<const std::byte> from,
                                         const TransformerArrays& arrays) const {
  if (from.empty()) return {};
  const bool to_head = unit == shape_.layers;
  float* const sum = to_head ? arrays.head.norm.sum : arrays.blocks[unit].norm1.sum;
  Widen(context, from.data(), sum);
  return {.sum = sum};
}

void StreamBoundary::ReadGradient(const ComputeContext& context, const TransformerArrays& arrays,
                                  absl::Span<std::byte> to) const {
  if (!to.empty()) Narrow(context, arrays.stream_gradient, to.data());
}

void StreamBoundary::SetGradient(const ComputeContext& context, int unit,
                                 absl::Span<const std::byte> from, const TransformerArrays& arrays,
                                 void* branch) const {
  if (from.empty()) return;
  float* const stream = arrays.stream_gradient;
  Widen(context, from.data(), stream);
  // The embedding ends with no branch.
  if (unit == 0 || ResidualNorm::BranchGradient(context, shape_, stream, branch) != branch) return;
  if (const OpDropout dropout = DropoutOfBranch(context, unit); dropout.clock != nullptr) {
    context.ops.Dropout(dropout, Elements(context), context.rows.whole_length() * shape_.width,
                        stream);
  }
  Narrow(context, stream, branch);
  Widen(context, from.data(), stream);
}

}  // namespace muster
