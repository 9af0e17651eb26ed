#include "worker/nn/layers/factorization_machine_layer.h"

#include <algorithm>

#include "common/kernels/factorization_machine.h"

namespace muster {

void FactorizationMachineLayer::AppendTensors(const std::string& name, uint32_t unit,
                                              std::vector<TensorSpec>& tensors) const {}

void FactorizationMachineLayer::Forward(const LayerContext& context, ParameterSpans parameters,
                                        absl::Span<const float> in, absl::Span<float> out) const {
  FactorizationMachine({.B = static_cast<int64_t>(out.size()),
                        .F = shape_.fields,
                        .D = shape_.dim,
                        .stride = in_features()},
                       in.data(), out.data());
}

void FactorizationMachineLayer::BackwardInput(const LayerContext& context,
                                              ParameterSpans parameters,
                                              const BackwardInputs& inputs,
                                              Accumulation accumulation,
                                              absl::Span<float> in_gradient) const {
  if (accumulation == Accumulation::kWrite) std::fill(in_gradient.begin(), in_gradient.end(), 0.0f);
  FactorizationMachineBackward({.B = static_cast<int64_t>(inputs.out_gradient.size()),
                                .F = shape_.fields,
                                .D = shape_.dim,
                                .stride = in_features()},
                               inputs.in.data(), inputs.out_gradient.data(), in_gradient.data());
}

void FactorizationMachineLayer::BackwardWeights(const LayerContext& context,
                                                const BackwardInputs& inputs,
                                                GradientSpans gradients) const {}

}  // namespace muster
