#ifndef MUSTER_WORKER_NN_LAYERS_RELU_LAYER_H_
#define MUSTER_WORKER_NN_LAYERS_RELU_LAYER_H_

#include "worker/nn/layer.h"

namespace muster {

// out = max(in, 0); its slope at 0 is taken as 0. Has no parameters. `out` may be `in`, and with
// kWrite `in_gradient` may be `out_gradient`: the layer can work in place.
class ReluLayer final : public Layer {
 public:
  explicit ReluLayer(int64_t features) : features_(features) {}

  int64_t in_features() const override { return features_; }
  int64_t out_features() const override { return features_; }
  void AppendTensors(const std::string& name, uint32_t unit,
                     std::vector<TensorSpec>& tensors) const override;
  void Forward(const LayerContext& context, ParameterSpans parameters, absl::Span<const float> in,
               absl::Span<float> out) const override;
  // Does not read inputs.in.
  void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                     const BackwardInputs& inputs, Accumulation accumulation,
                     absl::Span<float> in_gradient) const override;
  void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                       GradientSpans gradients) const override;

 private:
  const int64_t features_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_RELU_LAYER_H_
