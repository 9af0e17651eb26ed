#include "worker/nn/transformer/feed_forward/dense_feed_forward.h"

#include "worker/nn/transformer/adapters/parallel_linear.h"

namespace muster {

DenseFeedForward::DenseFeedForward(const TransformerShape& shape, int64_t columns)
    : shape_(shape), columns_(columns) {}

Linear DenseFeedForward::Up(const ComputeContext& context) const {
  return LinearOf(context, shape_.width, shape_.UpWidth(columns_));
}

Linear DenseFeedForward::Down(const ComputeContext& context) const {
  return LinearOf(context, columns_, shape_.width);
}

void DenseFeedForward::MakeActivated(const ComputeContext& context, const LinearWeights& up,
                                     const DenseArrays& arrays) const {
  const Linear linear = Up(context);
  const void* const in = AllRowsOf(context, shape_.width, arrays.in, arrays.gathered);
  const LayerAdapters adapters = arrays.AdaptersOf(AdaptedLayer::kUp);
  if (swiglu() || adapters.exist()) {
    LinearForward(context.ops, linear, up, in, arrays.up);
    adapters.AddForward(context, in, arrays.up);
    Activate(context, arrays);
  } else {
    context.ops.LinearGelu(linear, {.x = in,
                                    .weight = up.weight,
                                    .bias = up.bias,
                                    .before = arrays.up,
                                    .after = arrays.activated});
  }
}

void DenseFeedForward::Activate(const ComputeContext& context, const DenseArrays& arrays) const {
  const int64_t N = context.rows.count();
  if (swiglu()) {
    context.ops.SwiGlu(context.type, N, columns_, arrays.up, arrays.activated);
  } else {
    context.ops.Gelu(context.type, N * columns_, arrays.up, arrays.activated);
  }
}

void DenseFeedForward::MakeOut(const ComputeContext& context, const LinearWeights& down,
                               const DenseArrays& arrays, void* out) const {
  RowParallelLinear(context, Down(context), down, arrays.AdaptersOf(AdaptedLayer::kDown),
                    arrays.activated, out, arrays.gathered);
}

void DenseFeedForward::Backward(const ComputeContext& context, const LinearWeights& up,
                                const LinearWeights& down, const DenseArrays& arrays,
                                const DenseBackwardArrays& backward,
                                const LayerGradients& up_gradients,
                                const LayerGradients& down_gradients) const {
  const void* const dout = AllRowsOf(context, shape_.width, backward.dout, arrays.gathered);
  const Linear down_linear = Down(context);
  BackwardWeightsAtOnce(context, down_linear, dout, arrays.activated, down_gradients);
  const LayerAdapters down_adapters = arrays.AdaptersOf(AdaptedLayer::kDown);
  down_adapters.BackwardWeights(context, arrays.activated, dout);
  if (swiglu()) {
    context.ops.LinearBackwardInput(down_linear, dout, down.weight, backward.inner);
    down_adapters.AddInputGradient(context, dout, backward.inner);
    context.ops.SwiGluBackward(context.type, down_linear.rows, columns_, arrays.up, backward.inner,
                               backward.dup);
  } else {
    context.ops.LinearGeluBackwardInput(
        down_linear,
        {.dy = dout, .weight = down.weight, .before = arrays.up, .dbefore = backward.dup});
    down_adapters.AddInputGradient(context, dout, backward.dup, arrays.up);
  }
  const Linear up_linear = Up(context);
  const LayerAdapters up_adapters = arrays.AdaptersOf(AdaptedLayer::kUp);
  ColumnWeightsAtOnce(context, up_linear, backward.dup, arrays.in, arrays.gathered, up_gradients,
                      up_adapters);
  RowParallelLinearInput(context, up_linear, up.weight, up_adapters, backward.dup, backward.din,
                         arrays.gathered);
}

void DenseFeedForward::BackwardWeights(const ComputeContext& context, const DenseArrays& arrays,
                                       const void* dout, const void* dup,
                                       const LayerGradients& up_gradients,
                                       const LayerGradients& down_gradients) const {
  LinearBackwardWeights(context, Down(context),
                        AllRowsOf(context, shape_.width, dout, arrays.gathered), arrays.activated,
                        down_gradients);
  LinearBackwardWeights(context, Up(context), dup,
                        AllRowsOf(context, shape_.width, arrays.in, arrays.gathered), up_gradients);
}

}  // namespace muster
