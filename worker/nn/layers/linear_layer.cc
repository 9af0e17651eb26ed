#include "worker/nn/layers/linear_layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/kernels/elementwise.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/kernels/matmul.h"
#include "worker/nn/tensor_group.h"

namespace muster {
namespace {

Initializer WeightInitializer(LinearLayer::Init init, int64_t in_features) {
  if (init == LinearLayer::Init::kZero) return {};
  const double gain = init == LinearLayer::Init::kRelu ? 6 : 3;
  return {.kind = Initializer::Kind::kUniform,
          .scale = static_cast<float>(std::sqrt(gain / static_cast<double>(in_features)))};
}

// Returns how the ranks divide `features` rows or columns, which lie in a dimension.
Placement Divided(int dimension, int64_t features) {
  return {.kind = Placement::Kind::kShard,
          .dimension = dimension,
          .sections = {{.extent = features, .units = features}}};
}

int TensorRanks(const LayerContext& context) {
  return context.tensor_group == nullptr ? 1 : context.tensor_group->size();
}

}  // namespace

int64_t LinearLayer::LocalIn(const LayerContext& context) const {
  return options_.division == Division::kInputs ? in_features_ / TensorRanks(context)
                                                : in_features_;
}

int64_t LinearLayer::LocalOut(const LayerContext& context) const {
  return options_.division == Division::kOutputs ? out_features_ / TensorRanks(context)
                                                 : out_features_;
}

bool LinearLayer::HasBias(const LayerContext& context) const {
  const bool first = context.tensor_group == nullptr || context.tensor_group->rank() == 0;
  return options_.bias && (options_.division != Division::kInputs || first);
}

void LinearLayer::AppendTensors(const std::string& name, uint32_t unit,
                                std::vector<TensorSpec>& tensors) const {
  Placement weight, bias;
  if (options_.division == Division::kOutputs) {
    weight = bias = Divided(0, out_features_);
  } else if (options_.division == Division::kInputs) {
    weight = Divided(1, in_features_);
    bias.kind = Placement::Kind::kFirst;
  }
  tensors.push_back({.name = absl::StrCat(name, ".weight"),
                     .shape = {out_features_, in_features_},
                     .initializer = WeightInitializer(options_.init, in_features_),
                     .unit = unit,
                     .placement = weight});
  if (!options_.bias) return;
  tensors.push_back({.name = absl::StrCat(name, ".bias"),
                     .shape = {out_features_},
                     .initializer = {},
                     .unit = unit,
                     .weight_decay = false,
                     .placement = bias});
}

void LinearLayer::Forward(const LayerContext& context, ParameterSpans parameters,
                          absl::Span<const float> in, absl::Span<float> out) const {
  const int64_t out_width = LocalOut(context);
  const int64_t B = out.size() / out_width;
  Matmul(Transpose::kNo, Transpose::kYes, B, out_width, LocalIn(context), in.data(),
         parameters[0].data(), Accumulation::kWrite, out.data());
  if (HasBias(context)) AddBias(B, out_width, parameters[1].data(), out.data());
  if (options_.division == Division::kInputs && context.tensor_group != nullptr) {
    context.tensor_group->Sum(DType::kF32, out.size(), out.data());
  }
}

void LinearLayer::BackwardInput(const LayerContext& context, ParameterSpans parameters,
                                const BackwardInputs& inputs, Accumulation accumulation,
                                absl::Span<float> in_gradient) const {
  const int64_t out_width = LocalOut(context);
  const int64_t B = inputs.out_gradient.size() / out_width;
  Matmul(Transpose::kNo, Transpose::kNo, B, LocalIn(context), out_width, inputs.out_gradient.data(),
         parameters[0].data(), accumulation, in_gradient.data());
  if (options_.division == Division::kOutputs && context.tensor_group != nullptr) {
    context.tensor_group->Sum(DType::kF32, in_gradient.size(), in_gradient.data());
  }
}

void LinearLayer::BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                                  GradientSpans gradients) const {
  const int64_t out_width = LocalOut(context);
  const int64_t B = inputs.out_gradient.size() / out_width;
  Matmul(Transpose::kYes, Transpose::kNo, out_width, LocalIn(context), B,
         inputs.out_gradient.data(), inputs.in.data(), context.gradients, gradients[0].data());
  if (HasBias(context)) {
    if (context.gradients == Accumulation::kWrite) {
      SetToZero(gradients[1].size(), gradients[1].data());
    }
    AddBiasGradient(B, out_width, inputs.out_gradient.data(), gradients[1].data());
  }
}

}  // namespace muster
