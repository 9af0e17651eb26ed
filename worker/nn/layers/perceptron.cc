#include "worker/nn/layers/perceptron.h"

#include "absl/strings/str_cat.h"

namespace muster {

Perceptron::Perceptron(const Shape& shape) : first_tensor_(shape.first_tensor) {
  int64_t width = shape.in_features;
  for (int64_t hidden : shape.hidden) {
    linear_.emplace_back(width, hidden, LinearLayer::Options{.init = LinearLayer::Init::kRelu});
    relu_.emplace_back(hidden);
    width = hidden;
  }
  linear_.emplace_back(width, shape.out_features,
                       LinearLayer::Options{.init = LinearLayer::Init::kLogits});
}

void Perceptron::AppendTensors(std::vector<TensorSpec>& tensors) const {
  for (int unit = 0; unit < units(); ++unit) {
    linear_[unit].AppendTensors(unit + 1 < units() ? absl::StrCat("hidden", unit) : "output", unit,
                                tensors);
  }
}

void Perceptron::Resize(int64_t examples, Activations& activations) const {
  activations.out.resize(units());
  activations.out_gradient.resize(units() - 1);
  for (int unit = 0; unit < units(); ++unit) {
    const int64_t size = examples * linear_[unit].out_features();
    activations.out[unit].resize(size);
    if (unit + 1 < units()) activations.out_gradient[unit].resize(size);
  }
}

void Perceptron::Forward(const LayerContext& context, int unit, ParameterSpans parameters,
                         Activations& activations) const {
  const absl::Span<const float> in =
      unit == 0 ? activations.in : absl::MakeConstSpan(activations.out[unit - 1]);
  const absl::Span<float> out = absl::MakeSpan(activations.out[unit]);
  linear_[unit].Forward(context, parameters.subspan(first_tensor_ + 2 * unit, 2), in, out);
  if (unit + 1 < units()) relu_[unit].Forward(context, {}, out, out);
}

void Perceptron::Backward(const LayerContext& context, int unit, ParameterSpans parameters,
                          GradientSpans gradients, Activations& activations) const {
  const bool last = unit + 1 == units();
  if (!last) {
    const absl::Span<float> gradient = absl::MakeSpan(activations.out_gradient[unit]);
    relu_[unit].BackwardInput(context, {},
                              {.in = {}, .out = activations.out[unit], .out_gradient = gradient},
                              Accumulation::kWrite, gradient);
  }
  const BackwardInputs inputs = {
      .in = unit == 0 ? activations.in : absl::MakeConstSpan(activations.out[unit - 1]),
      .out = {},
      .out_gradient = last ? activations.out[unit] : activations.out_gradient[unit]};
  linear_[unit].BackwardWeights(context, inputs, gradients.subspan(first_tensor_ + 2 * unit, 2));
  const absl::Span<float> in_gradient =
      unit == 0 ? activations.in_gradient : absl::MakeSpan(activations.out_gradient[unit - 1]);
  if (in_gradient.empty()) return;
  linear_[unit].BackwardInput(context, parameters.subspan(first_tensor_ + 2 * unit, 2), inputs,
                              Accumulation::kWrite, in_gradient);
}

}  // namespace muster
