#include "worker/nn/layers/linear_layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/kernels/elementwise.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/kernels/matmul.h"

namespace muster {
namespace {

Initializer WeightInitializer(LinearLayer::Init init, int64_t in_features) {
  if (init == LinearLayer::Init::kZero) return {};
  const double gain = init == LinearLayer::Init::kRelu ? 6 : 3;
  return {.kind = Initializer::Kind::kUniform,
          .scale = static_cast<float>(std::sqrt(gain / static_cast<double>(in_features)))};
}

}  // namespace

void LinearLayer::AppendTensors(const std::string& name, uint32_t unit,
                                std::vector<TensorSpec>& tensors) const {
  tensors.push_back({.name = absl::StrCat(name, ".weight"),
                     .shape = {out_features_, in_features_},
                     .initializer = WeightInitializer(options_.init, in_features_),
                     .unit = unit});
  if (!options_.bias) return;
  tensors.push_back({.name = absl::StrCat(name, ".bias"),
                     .shape = {out_features_},
                     .initializer = {},
                     .unit = unit,
                     .weight_decay = false});
}

void LinearLayer::Forward(const LayerContext& context, ParameterSpans parameters,
                          absl::Span<const float> in, absl::Span<float> out) const {
  const int64_t B = out.size() / out_features_;
  Matmul(Transpose::kNo, Transpose::kYes, B, out_features_, in_features_, in.data(),
         parameters[0].data(), Accumulation::kWrite, out.data());
  if (options_.bias) AddBias(B, out_features_, parameters[1].data(), out.data());
}

void LinearLayer::BackwardInput(const LayerContext& context, ParameterSpans parameters,
                                const BackwardInputs& inputs, Accumulation accumulation,
                                absl::Span<float> in_gradient) const {
  const int64_t B = inputs.out_gradient.size() / out_features_;
  Matmul(Transpose::kNo, Transpose::kNo, B, in_features_, out_features_, inputs.out_gradient.data(),
         parameters[0].data(), accumulation, in_gradient.data());
}

void LinearLayer::BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                                  GradientSpans gradients) const {
  const int64_t B = inputs.out_gradient.size() / out_features_;
  Matmul(Transpose::kYes, Transpose::kNo, out_features_, in_features_, B,
         inputs.out_gradient.data(), inputs.in.data(), context.gradients, gradients[0].data());
  if (options_.bias) {
    if (context.gradients == Accumulation::kWrite) {
      SetToZero(gradients[1].size(), gradients[1].data());
    }
    AddBiasGradient(B, out_features_, inputs.out_gradient.data(), gradients[1].data());
  }
}

}  // namespace muster
