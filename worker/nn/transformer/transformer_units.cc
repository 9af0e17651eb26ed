#include "worker/nn/transformer/transformer_units.h"

#include <cstddef>

#include "absl/types/span.h"
#include "worker/nn/transformer/residual_norm.h"

namespace muster {
namespace {

// Returns null where the shape does not have the tensor.
template <typename E>
E* ValuesOf(int tensor, absl::Span<const absl::Span<E>> values) {
  return tensor == kNoTensor ? nullptr : values[tensor].data();
}

NormWeights NormOf(const LayerTensors& norm, const TransformerPass& pass) {
  const ParameterSpans values = pass.parameters.values;
  return {ValuesOf(norm.weight, values), ValuesOf(norm.bias, values)};
}

const void* RoundedOf(int tensor, const TransformerPass& pass) {
  if (pass.context.type == DType::kF32) return ValuesOf(tensor, pass.parameters.values);
  return tensor == kNoTensor ? nullptr : pass.parameters.rounded[tensor];
}

LinearWeights LinearOf(const LayerTensors& linear, const TransformerPass& pass) {
  const bool rounded = pass.context.ops.traits().bias == OpsTraits::Bias::kRounded;
  return {RoundedOf(linear.weight, pass),
          rounded ? RoundedOf(linear.bias, pass) : ValuesOf(linear.bias, pass.parameters.values)};
}

LayerGradients GradientOf(const LayerTensors& layer, GradientSpans gradients) {
  return {gradients[layer.weight].data(), ValuesOf(layer.bias, gradients)};
}

BlockGradients BlockGradientsOf(const BlockTensors& tensors, GradientSpans gradients) {
  return {.norm1 = GradientOf(tensors.norm1, gradients),
          .qkv = GradientOf(tensors.qkv, gradients),
          .proj = GradientOf(tensors.proj, gradients),
          .norm2 = GradientOf(tensors.norm2, gradients),
          .up = GradientOf(tensors.up, gradients),
          .down = GradientOf(tensors.down, gradients)};
}

// Returns where the gradient of the branch that the unit ends with is made. The embedding ends with
// none, but the norm after it has to work somewhere.
void* BranchGradientOf(const TransformerArrays& arrays, int unit) {
  return unit == 0 ? arrays.scratch.branch : arrays.product_gradients[unit - 1].down;
}

}  // namespace

TransformerUnits::TransformerUnits(const TransformerShape& shape, Recompute recompute,
                                   const float* rotary_table)
    : shape_(shape),
      recompute_(recompute),
      tensors_(MakeTransformerTensors(shape)),
      embedding_(shape),
      head_(shape) {
  for (int64_t l = 0; l < shape.layers; ++l) blocks_.emplace_back(shape, l, rotary_table);
}

BlockWeights TransformerUnits::BlockWeightsOf(const TransformerPass& pass, int unit) const {
  const BlockTensors& tensors = tensors_.blocks[unit - 1];
  return {.norm1 = NormOf(tensors.norm1, pass),
          .qkv = LinearOf(tensors.qkv, pass),
          .proj = LinearOf(tensors.proj, pass),
          .norm2 = NormOf(tensors.norm2, pass),
          .up = LinearOf(tensors.up, pass),
          .down = LinearOf(tensors.down, pass)};
}

LanguageHeadWeights TransformerUnits::HeadWeightsOf(const TransformerPass& pass) const {
  return {.norm = NormOf(tensors_.norm, pass), .head = RoundedOf(tensors_.head, pass)};
}

void TransformerUnits::ZeroGradients(Ops& ops, int unit, GradientSpans gradients) const {
  for (size_t t = 0; t < tensors_.specs.size(); ++t) {
    if (static_cast<int>(tensors_.specs[t].unit) != unit) continue;
    if (shape_.tied_head && static_cast<int>(t) == tensors_.embedding) continue;
    ops.Zero(static_cast<int64_t>(gradients[t].size()), gradients[t].data());
  }
}

ResidualStream TransformerUnits::Forward(const TransformerPass& pass, int unit,
                                         const ResidualStream& in) const {
  const TransformerArrays& arrays = pass.arrays;
  if (pass.context.rows.sequences == 0) return {};
  if (unit == 0) {
    const ParameterSpans values = pass.parameters.values;
    float* const stream = arrays.blocks[0].norm1.sum;
    embedding_.Forward(pass.context, pass.tokens,
                       {ValuesOf(tensors_.embedding, values), ValuesOf(tensors_.positions, values)},
                       stream);
    return {.sum = stream};
  }
  if (unit < last_unit()) {
    return block(unit).Forward(pass.context, attention_, BlockWeightsOf(pass, unit), in,
                               arrays.blocks[unit - 1], arrays.scratch);
  }
  head_.Forward(pass.context, HeadWeightsOf(pass), in, pass.loss, arrays.head);
  return {};
}

ResidualStream TransformerUnits::OutputGradient(const TransformerPass& pass, int unit) const {
  const float* const stream = pass.arrays.stream_gradient;
  if (unit == 0) return {.sum = stream};
  return {stream, ResidualNorm::BranchGradient(pass.context, shape_, stream,
                                               BranchGradientOf(pass.arrays, unit))};
}

ResidualStream TransformerUnits::RunLastUnit(const TransformerPass& pass, const ResidualStream& in,
                                             GradientSpans gradients) const {
  const ComputeContext& context = pass.context;
  if (context.rows.sequences == 0) {
    if (context.gradients == Accumulation::kWrite) {
      ZeroGradients(context.ops, last_unit(), gradients);
    }
    return {};
  }
  head_.ForwardBackward(context, HeadWeightsOf(pass), in, pass.loss, pass.arrays.head,
                        {.stream = pass.arrays.stream_gradient,
                         .branch = BranchGradientOf(pass.arrays, last_unit() - 1),
                         .norm = GradientOf(tensors_.norm, gradients),
                         .head = gradients[tensors_.head].data()});
  return OutputGradient(pass, last_unit() - 1);
}

ResidualStream TransformerUnits::Backward(const TransformerPass& pass, int unit,
                                          GradientSpans gradients) const {
  const ResidualStream in_gradient = BackwardInput(pass, unit, gradients);
  BackwardWeights(pass, unit, gradients);
  return in_gradient;
}

ResidualStream TransformerUnits::BackwardInput(const TransformerPass& pass, int unit,
                                               GradientSpans gradients) const {
  const ComputeContext& context = pass.context;
  const TransformerArrays& arrays = pass.arrays;
  const bool empty = context.rows.sequences == 0;
  if (context.gradients == Accumulation::kWrite && (empty || unit == 0)) {
    ZeroGradients(context.ops, unit, gradients);
  }
  if (empty) return {};
  if (unit == 0) {
    embedding_.Backward(
        context, pass.tokens, arrays.stream_gradient,
        {ValuesOf(tensors_.embedding, gradients), ValuesOf(tensors_.positions, gradients)});
    return {};
  }
  const BlockActivations& activations = arrays.blocks[unit - 1];
  const BlockWeights weights = BlockWeightsOf(pass, unit);
  block(unit).Again(recompute_, context, attention_, weights, activations, arrays.scratch);
  block(unit).Backward(context, attention_, weights, activations,
                       {.stream = arrays.stream_gradient,
                        .products = arrays.product_gradients[unit - 1],
                        .branch = BranchGradientOf(arrays, unit - 1),
                        .inner = arrays.scratch.inner},
                       BlockGradientsOf(tensors_.blocks[unit - 1], gradients));
  return OutputGradient(pass, unit - 1);
}

void TransformerUnits::BackwardWeights(const TransformerPass& pass, int unit,
                                       GradientSpans gradients) const {
  const ComputeContext& context = pass.context;
  if (!context.split_backward || unit == 0 || context.rows.sequences == 0) return;
  block(unit).BackwardWeights(context, pass.arrays.blocks[unit - 1],
                              pass.arrays.product_gradients[unit - 1],
                              BlockGradientsOf(tensors_.blocks[unit - 1], gradients));
}

}  // namespace muster
