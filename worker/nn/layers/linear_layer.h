#ifndef MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_
#define MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_

#include "worker/nn/layer.h"

namespace muster {

// out = in · weightᵀ + bias, with weight [out_features, in_features] and bias [out_features].
class LinearLayer final : public Layer {
 public:
  // What follows the layer decides the spread of its initial weights: uniform in ± sqrt(gain /
  // in_features), which keeps the variance of activations. kRelu: gain 6 (He, Zhang, Ren, Sun,
  // "Delving Deep into Rectifiers", 2015, section 2.2). kLogits: gain 3. kZero starts all weights
  // at 0, for a model that is one linear layer.
  enum class Init { kRelu, kLogits, kZero };

  struct Options {
    Init init = Init::kRelu;
    // Without one, the layer's only tensor is its weight.
    bool bias = true;
  };

  LinearLayer(int64_t in_features, int64_t out_features, const Options& options)
      : in_features_(in_features), out_features_(out_features), options_(options) {}

  int64_t in_features() const override { return in_features_; }
  int64_t out_features() const override { return out_features_; }
  // `name`.weight and `name`.bias; the bias takes no weight decay.
  void AppendTensors(const std::string& name, uint32_t unit,
                     std::vector<TensorSpec>& tensors) const override;
  void Forward(const LayerContext& context, ParameterSpans parameters, absl::Span<const float> in,
               absl::Span<float> out) const override;
  // Does not read inputs.in and inputs.out.
  void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                     const BackwardInputs& inputs, Accumulation accumulation,
                     absl::Span<float> in_gradient) const override;
  // Does not read inputs.out.
  void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                       GradientSpans gradients) const override;

 private:
  const int64_t in_features_;
  const int64_t out_features_;
  const Options options_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_
