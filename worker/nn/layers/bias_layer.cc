#include "worker/nn/layers/bias_layer.h"

#include <algorithm>

#include "common/kernels/elementwise.h"
#include "common/kernels/gemm/row_sums.h"

namespace muster {

void BiasLayer::AppendTensors(const std::string& name, uint32_t unit,
                              std::vector<TensorSpec>& tensors) const {
  tensors.push_back(
      {.name = name, .shape = {features_}, .initializer = {}, .unit = unit, .weight_decay = false});
}

void BiasLayer::Forward(const LayerContext& context, ParameterSpans parameters,
                        absl::Span<const float> in, absl::Span<float> out) const {
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  AddBias(out.size() / features_, features_, parameters[0].data(), out.data());
}

void BiasLayer::BackwardInput(const LayerContext& context, ParameterSpans parameters,
                              const BackwardInputs& inputs, Accumulation accumulation,
                              absl::Span<float> in_gradient) const {
  if (accumulation == Accumulation::kAdd) {
    AddScaled(in_gradient.size(), 1, inputs.out_gradient.data(), in_gradient.data());
  } else if (inputs.out_gradient.data() != in_gradient.data()) {
    std::copy(inputs.out_gradient.begin(), inputs.out_gradient.end(), in_gradient.begin());
  }
}

void BiasLayer::BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                                GradientSpans gradients) const {
  if (context.gradients == Accumulation::kWrite) SetToZero(features_, gradients[0].data());
  AddBiasGradient(inputs.out_gradient.size() / features_, features_, inputs.out_gradient.data(),
                  gradients[0].data());
}

}  // namespace muster
