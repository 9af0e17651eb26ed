#ifndef MUSTER_WORKER_NN_LAYERS_BIAS_LAYER_H_
#define MUSTER_WORKER_NN_LAYERS_BIAS_LAYER_H_

#include "worker/nn/layer.h"

namespace muster {

// out = in + bias, with bias [features], which starts at 0 and takes no weight decay. `out` may be
// `in`, and with kWrite `in_gradient` may be `out_gradient`: the layer can work in place.
class BiasLayer final : public Layer {
 public:
  explicit BiasLayer(int64_t features) : features_(features) {}

  int64_t in_features() const override { return features_; }
  int64_t out_features() const override { return features_; }
  // The tensor is `name` itself.
  void AppendTensors(const std::string& name, uint32_t unit,
                     std::vector<TensorSpec>& tensors) const override;
  void Forward(const LayerContext& context, ParameterSpans parameters, absl::Span<const float> in,
               absl::Span<float> out) const override;
  // Reads the gradient alone.
  void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                     const BackwardInputs& inputs, Accumulation accumulation,
                     absl::Span<float> in_gradient) const override;
  void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                       GradientSpans gradients) const override;

 private:
  const int64_t features_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_BIAS_LAYER_H_
