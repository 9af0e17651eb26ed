#include "worker/nn/residual_norm.h"

#include <type_traits>
#include <utility>

#include "common/kernels/row_sums.h"

namespace muster {
namespace {

template <typename T>
bool StreamIsBranch(const TransformerShape& shape) {
  return std::is_same_v<T, float> && shape.dropout == 0;
}

}  // namespace

template <typename T>
ResidualNorm<T>::ResidualNorm(const TransformerShape& shape, std::string branch_name)
    : shape_(shape), branch_name_(std::move(branch_name)) {}

template <typename T>
NormShape ResidualNorm<T>::KernelShape(const TokenRows& rows) const {
  return {.kind = shape_.norm == TransformerShape::Norm::kRmsNorm ? NormKind::kRmsNorm
                                                                  : NormKind::kLayerNorm,
          .rows = rows.count(),
          .width = shape_.width,
          .epsilon = shape_.norm_epsilon};
}

template <typename T>
absl::optional<DropoutMask> ResidualNorm<T>::MaskOf(const LayerContext& context) const {
  if (shape_.dropout == 0 || context.pass != Pass::kTraining) return absl::nullopt;
  return DropoutMask(context.seed, branch_name_, context.clock, shape_.dropout);
}

template <typename T>
DropoutShape ResidualNorm<T>::MaskedShape(const TokenRows& rows) const {
  return {.examples = rows.sequences,
          .size = rows.length * shape_.width,
          .first_example = rows.first_example};
}

template <typename T>
void ResidualNorm<T>::Forward(const LayerContext& context, const TokenRows& rows,
                              const NormWeights& weights, const ResidualStream<T>& in,
                              const NormActivations& kept, T* out) const {
  const absl::optional<DropoutMask> mask = MaskOf(context);
  NormInputs<T> inputs;
  inputs.x = in.sum;
  inputs.branch = in.branch;
  if (in.branch != nullptr && mask.has_value()) inputs.mask = &*mask;
  inputs.dropout = MaskedShape(rows);
  inputs.gain = weights.gain;
  inputs.bias = weights.bias;
  NormOutputs<T> outputs;
  outputs.sum = in.branch == nullptr ? nullptr : kept.sum;
  outputs.out = out;
  outputs.mean = kept.mean;
  outputs.rstd = kept.rstd;
  Norm<T>(KernelShape(rows), inputs, outputs);
}

template <typename T>
void ResidualNorm<T>::Backward(const LayerContext& context, const TokenRows& rows,
                               const NormWeights& weights, const NormActivations& kept,
                               const T* out_gradient, Upstream upstream, float* stream_gradient,
                               T* branch_gradient, const LayerGradients& gradients) const {
  const absl::optional<DropoutMask> mask = MaskOf(context);
  NormBackwardInputs<T> inputs;
  inputs.sum = kept.sum;
  inputs.gain = weights.gain;
  inputs.mean = kept.mean;
  inputs.rstd = kept.rstd;
  inputs.dout = out_gradient;
  inputs.dsum = upstream == Upstream::kStream ? stream_gradient : nullptr;
  if (mask.has_value()) inputs.mask = &*mask;
  inputs.dropout = MaskedShape(rows);
  NormGradients<T> outputs;
  outputs.dx = stream_gradient;
  outputs.dbranch = StreamIsBranch<T>(shape_) ? nullptr : branch_gradient;
  if (context.gradients == Accumulation::kWrite) {
    SetToZero(shape_.width, gradients.weight);
    if (gradients.bias != nullptr) SetToZero(shape_.width, gradients.bias);
  }
  outputs.gain = gradients.weight;
  outputs.bias = gradients.bias;
  NormBackward<T>(KernelShape(rows), inputs, outputs);
}

template <typename T>
const T* ResidualNorm<T>::BranchGradient(const TransformerShape& shape,
                                         const float* stream_gradient, const T* branch_gradient) {
  if constexpr (std::is_same_v<T, float>) {
    if (StreamIsBranch<T>(shape)) return stream_gradient;
  }
  return branch_gradient;
}

template class ResidualNorm<float>;
template class ResidualNorm<BFloat16>;
template class ResidualNorm<Float16>;

}  // namespace muster
