#include "worker/nn/layers/relu_layer.h"

#include <algorithm>

#include "common/kernels/elementwise.h"

namespace muster {

void ReluLayer::AppendTensors(const std::string& name, uint32_t unit,
                              std::vector<TensorSpec>& tensors) const {}

void ReluLayer::Forward(const LayerContext& context, ParameterSpans parameters,
                        absl::Span<const float> in, absl::Span<float> out) const {
  Relu(out.size(), in.data(), out.data());
}

void ReluLayer::BackwardInput(const LayerContext& context, ParameterSpans parameters,
                              const BackwardInputs& inputs, Accumulation accumulation,
                              absl::Span<float> in_gradient) const {
  if (accumulation == Accumulation::kWrite) {
    ReluBackward(in_gradient.size(), inputs.out.data(), inputs.out_gradient.data(),
                 in_gradient.data());
    return;
  }
  constexpr size_t kPiece = 1024;
  float piece[kPiece];
  for (size_t begin = 0; begin < in_gradient.size(); begin += kPiece) {
    const int64_t n = std::min(kPiece, in_gradient.size() - begin);
    ReluBackward(n, inputs.out.data() + begin, inputs.out_gradient.data() + begin, piece);
    AddScaled(n, 1, piece, in_gradient.data() + begin);
  }
}

void ReluLayer::BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                                GradientSpans gradients) const {}

}  // namespace muster
