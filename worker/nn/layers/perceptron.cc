#include "worker/nn/layers/perceptron.h"

#include "absl/strings/str_cat.h"
#include "worker/nn/tensor_group.h"

namespace muster {

namespace {

// Returns the widths of the layers' outputs, the last layer's included.
std::vector<int64_t> OutWidths(const Perceptron::Shape& shape) {
  std::vector<int64_t> widths = shape.hidden;
  widths.push_back(shape.out_features);
  return widths;
}

LinearLayer::Division DivisionOf(int unit, int units) {
  if (unit % 2 == 1) return LinearLayer::Division::kInputs;
  return unit + 1 < units ? LinearLayer::Division::kOutputs : LinearLayer::Division::kNone;
}

absl::Status GroupStatus(const LayerContext& context) {
  return context.tensor_group == nullptr ? absl::OkStatus() : context.tensor_group->status();
}

}  // namespace

Perceptron::Perceptron(const Shape& shape) : first_tensor_(shape.first_tensor) {
  const std::vector<int64_t> widths = OutWidths(shape);
  const int units = static_cast<int>(widths.size());
  int64_t in_width = shape.in_features;
  for (int unit = 0; unit < units; ++unit) {
    const bool last = unit + 1 == units;
    linear_.emplace_back(
        in_width, widths[unit],
        LinearLayer::Options{.init = last ? LinearLayer::Init::kLogits : LinearLayer::Init::kRelu,
                             .division = DivisionOf(unit, units)});
    if (!last) relu_.emplace_back(widths[unit]);
    in_width = widths[unit];
  }
}

void Perceptron::AppendTensors(std::vector<TensorSpec>& tensors) const {
  for (int unit = 0; unit < units(); ++unit) {
    linear_[unit].AppendTensors(unit + 1 < units() ? absl::StrCat("hidden", unit) : "output", unit,
                                tensors);
  }
}

void Perceptron::Begin(int64_t examples, Activations& activations) const {
  activations.examples = examples;
  activations.out.resize(units());
  activations.out_gradient.resize(units() - 1);
}

absl::Status Perceptron::Forward(const LayerContext& context, int unit, ParameterSpans parameters,
                                 Activations& activations) const {
  const absl::Span<const float> in =
      unit == 0 ? activations.in : absl::MakeConstSpan(activations.out[unit - 1]);
  activations.out[unit].resize(activations.examples * linear_[unit].LocalOut(context));
  const absl::Span<float> out = absl::MakeSpan(activations.out[unit]);
  linear_[unit].Forward(context, parameters.subspan(first_tensor_ + 2 * unit, 2), in, out);
  if (unit + 1 < units()) relu_[unit].Forward(context, {}, out, out);
  return GroupStatus(context);
}

absl::Status Perceptron::Backward(const LayerContext& context, int unit, ParameterSpans parameters,
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
  absl::Span<float> in_gradient = activations.in_gradient;
  if (unit > 0) {
    activations.out_gradient[unit - 1].resize(activations.out[unit - 1].size());
    in_gradient = absl::MakeSpan(activations.out_gradient[unit - 1]);
  }
  if (!in_gradient.empty()) {
    linear_[unit].BackwardInput(context, parameters.subspan(first_tensor_ + 2 * unit, 2), inputs,
                                Accumulation::kWrite, in_gradient);
  }
  return GroupStatus(context);
}

}  // namespace muster
