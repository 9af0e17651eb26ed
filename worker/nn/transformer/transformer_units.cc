#include "worker/nn/transformer/transformer_units.h"

#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/attention/context_attention.h"
#include "worker/nn/transformer/residual_norm.h"

namespace muster {
namespace {

// Returns where the gradient of the branch that the unit ends with is made. The embedding ends with
// none, but the norm after it has to work somewhere.
void* BranchGradientOf(const TransformerArrays& arrays, int unit) {
  return unit == 0 ? arrays.scratch.branch : arrays.product_gradients[unit - 1].down;
}

// Returns what `of` makes of the tensors of each of a block's adapters.
template <typename Adapter, typename OfTensor>
std::array<Adapter, kAdapterTargets> AdaptersOf(const BlockTensors& block, OfTensor of) {
  std::array<Adapter, kAdapterTargets> adapters;
  for (int target = 0; target < kAdapterTargets; ++target) {
    adapters[target] = {of(block.adapters[target].down), of(block.adapters[target].up)};
  }
  return adapters;
}

}  // namespace

TransformerUnits::TransformerUnits(const TransformerShape& shape, const Mesh& mesh,
                                   Recompute recompute, const float* rotary_table)
    : shape_(ShapeOfRank(shape, mesh)),
      recompute_(recompute),
      tensors_(MakeTransformerTensors(shape)),
      embedding_(shape_),
      head_(shape_, shape.vocabulary) {
  for (int64_t l = 0; l < shape.layers; ++l) blocks_.emplace_back(shape_, l, rotary_table);
}

bool TransformerUnits::Has(const ComputeContext& context, int tensor) const {
  if (tensor == kNoTensor) return false;
  const bool first_alone = tensors_.specs[tensor].placement.kind == Placement::Kind::kFirst;
  return !first_alone || context.group == nullptr || context.group->rank() == 0;
}

template <typename E>
E* TransformerUnits::ValuesOf(const ComputeContext& context, int tensor,
                              absl::Span<const absl::Span<E>> values) const {
  return Has(context, tensor) ? values[tensor].data() : nullptr;
}

NormWeights TransformerUnits::NormOf(const TransformerPass& pass, const LayerTensors& norm) const {
  const ParameterSpans values = pass.parameters.values;
  return {ValuesOf(pass.context, norm.weight, values), ValuesOf(pass.context, norm.bias, values)};
}

const void* TransformerUnits::RoundedOf(const TransformerPass& pass, int tensor) const {
  if (pass.context.type == DType::kF32) {
    return ValuesOf(pass.context, tensor, pass.parameters.values);
  }
  return Has(pass.context, tensor) ? pass.parameters.rounded[tensor] : nullptr;
}

LinearWeights TransformerUnits::LinearOf(const TransformerPass& pass,
                                         const LayerTensors& linear) const {
  const bool rounded = pass.context.ops.traits().bias == OpsTraits::Bias::kRounded;
  return {RoundedOf(pass, linear.weight),
          rounded ? RoundedOf(pass, linear.bias)
                  : ValuesOf(pass.context, linear.bias, pass.parameters.values)};
}

LayerGradients TransformerUnits::GradientOf(const ComputeContext& context,
                                            const LayerTensors& layer,
                                            GradientSpans gradients) const {
  return {ValuesOf(context, layer.weight, gradients), ValuesOf(context, layer.bias, gradients)};
}

BlockGradients TransformerUnits::BlockGradientsOf(const ComputeContext& context, int unit,
                                                  GradientSpans gradients) const {
  const BlockTensors& tensors = tensors_.blocks[unit - 1];
  return {.norm1 = GradientOf(context, tensors.norm1, gradients),
          .qkv = GradientOf(context, tensors.qkv, gradients),
          .query_key = {ValuesOf(context, tensors.query_norm, gradients),
                        ValuesOf(context, tensors.key_norm, gradients)},
          .proj = GradientOf(context, tensors.proj, gradients),
          .norm2 = GradientOf(context, tensors.norm2, gradients),
          .up = GradientOf(context, tensors.up, gradients),
          .down = GradientOf(context, tensors.down, gradients),
          .experts = {.router = ValuesOf(context, tensors.router, gradients),
                      .router_bias = ValuesOf(context, tensors.router_bias, gradients),
                      .up = ValuesOf(context, tensors.expert_up, gradients),
                      .down = ValuesOf(context, tensors.expert_down, gradients),
                      .shared_gate = ValuesOf(context, tensors.shared_gate, gradients)},
          .adapters = AdaptersOf<AdapterGradients>(
              tensors, [&](int tensor) { return ValuesOf(context, tensor, gradients); })};
}

BlockWeights TransformerUnits::BlockWeightsOf(const TransformerPass& pass, int unit) const {
  const BlockTensors& tensors = tensors_.blocks[unit - 1];
  return {.norm1 = NormOf(pass, tensors.norm1),
          .qkv = LinearOf(pass, tensors.qkv),
          .query_key = {ValuesOf(pass.context, tensors.query_norm, pass.parameters.values),
                        ValuesOf(pass.context, tensors.key_norm, pass.parameters.values)},
          .proj = LinearOf(pass, tensors.proj),
          .norm2 = NormOf(pass, tensors.norm2),
          .up = LinearOf(pass, tensors.up),
          .down = LinearOf(pass, tensors.down),
          .experts = {.router = RoundedOf(pass, tensors.router),
                      .router_bias =
                          ValuesOf(pass.context, tensors.router_bias, pass.parameters.values),
                      .up = RoundedOf(pass, tensors.expert_up),
                      .down = RoundedOf(pass, tensors.expert_down),
                      .shared_gate = RoundedOf(pass, tensors.shared_gate)},
          .adapters = AdaptersOf<AdapterWeights>(
              tensors, [&](int tensor) { return RoundedOf(pass, tensor); })};
}

LanguageHeadWeights TransformerUnits::HeadWeightsOf(const TransformerPass& pass) const {
  return {.norm = NormOf(pass, tensors_.norm), .head = RoundedOf(pass, tensors_.head)};
}

void TransformerUnits::ZeroGradients(Ops& ops, int unit, GradientSpans gradients) const {
  for (size_t t = 0; t < tensors_.specs.size(); ++t) {
    if (static_cast<int>(tensors_.specs[t].unit) != unit) continue;
    // A frozen tensor has no gradient.
    if (gradients[t].empty()) continue;
    // The head has written it, unless another stage has the head.
    const bool has_head = !gradients[tensors_.head].empty();
    if (shape_.tied_head && has_head && static_cast<int>(t) == tensors_.embedding) continue;
    ops.Zero(static_cast<int64_t>(gradients[t].size()), gradients[t].data());
  }
}

ResidualStream TransformerUnits::Forward(const TransformerPass& pass, int unit,
                                         const ResidualStream& in) const {
  const TransformerArrays& arrays = pass.arrays;
  if (pass.context.rows.sequences == 0) {
    if (unit > 0 && unit < last_unit()) {
      block(unit).ForwardWithoutTokens(pass.context, BlockWeightsOf(pass, unit),
                                       arrays.blocks[unit - 1], arrays.scratch);
    }
    return {};
  }
  if (unit == 0) {
    const ParameterSpans values = pass.parameters.values;
    // A stage may have no block, and then has no other use for the head's.
    float* const stream = arrays.blocks.empty() ? arrays.head.norm.sum : arrays.blocks[0].norm1.sum;
    embedding_.Forward(pass.context, pass.tokens,
                       {ValuesOf(pass.context, tensors_.embedding, values),
                        ValuesOf(pass.context, tensors_.positions, values)},
                       stream, arrays.scratch.gathered);
    return {.sum = stream};
  }
  if (unit < last_unit()) {
    return block(unit).Forward(pass.context, *AttentionOf(pass, unit), BlockWeightsOf(pass, unit),
                               in, arrays.blocks[unit - 1], arrays.scratch);
  }
  head_.Forward(pass.context, HeadWeightsOf(pass), in, pass.loss, arrays.head,
                arrays.scratch.gathered);
  return {};
}

std::unique_ptr<const TrainedAttentionStep> TransformerUnits::AttentionOf(
    const TransformerPass& pass, int unit, HeadsInput input) {
  if (pass.context.context_group == nullptr) return std::make_unique<PlainAttentionStep>();
  const BlockActivations& activations = pass.arrays.blocks[unit - 1];
  if (pass.context.context_exchange == ContextExchange::kHeads) {
    return std::make_unique<HeadsAttentionStep>(activations, input);
  }
  return std::make_unique<ContextAttentionStep>(activations.context);
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
                        pass.arrays.scratch.gathered,
                        {.stream = pass.arrays.stream_gradient,
                         .branch = BranchGradientOf(pass.arrays, last_unit() - 1),
                         .norm = GradientOf(context, tensors_.norm, gradients),
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
  if (empty) {
    if (unit == 0) return {};
    block(unit).BackwardWithoutTokens(recompute_, context, BlockWeightsOf(pass, unit),
                                      arrays.blocks[unit - 1], arrays.product_gradients[unit - 1],
                                      arrays.scratch, BlockGradientsOf(context, unit, gradients));
    return {};
  }
  if (unit == 0) {
    embedding_.Backward(context, pass.tokens, arrays.stream_gradient, arrays.scratch.gathered,
                        {ValuesOf(context, tensors_.embedding, gradients),
                         ValuesOf(context, tensors_.positions, gradients)});
    return {};
  }
  const BlockActivations& activations = arrays.blocks[unit - 1];
  const BlockWeights weights = BlockWeightsOf(pass, unit);
  const std::unique_ptr<const TrainedAttentionStep> attention = AttentionOf(
      pass, unit, recompute_ == Recompute::kSelective ? HeadsInput::kKept : HeadsInput::kExchanged);
  block(unit).RecomputeActivations(recompute_, context, *attention, weights, activations,
                                   arrays.scratch);
  block(unit).Backward(context, *attention, weights, activations,
                       {.stream = arrays.stream_gradient,
                        .products = arrays.product_gradients[unit - 1],
                        .branch = BranchGradientOf(arrays, unit - 1),
                        .scratch = arrays.scratch},
                       BlockGradientsOf(context, unit, gradients));
  return OutputGradient(pass, unit - 1);
}

void TransformerUnits::BackwardWeights(const TransformerPass& pass, int unit,
                                       GradientSpans gradients) const {
  const ComputeContext& context = pass.context;
  if (!context.split_backward || unit == 0 || context.rows.sequences == 0) return;
  block(unit).BackwardWeights(context, pass.arrays.blocks[unit - 1],
                              pass.arrays.product_gradients[unit - 1], pass.arrays.scratch,
                              BlockGradientsOf(context, unit, gradients));
}

}  // namespace muster
