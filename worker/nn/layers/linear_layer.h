#ifndef MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_
#define MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_

#include "worker/nn/layer.h"

namespace muster {

// out = in · weightᵀ + bias, with weight [out_features, in_features] and bias [out_features]. Ranks
// of a tensor group may divide the layer (Shoeybi et al., "Megatron-LM", 2019, section 3): each
// then computes with its shares of the tensors (LocalTensors).
class LinearLayer final : public Layer {
 public:
  // What follows the layer decides the spread of its initial weights: uniform in ± sqrt(gain /
  // in_features), which keeps the variance of activations. kRelu: gain 6 (He, Zhang, Ren, Sun,
  // "Delving Deep into Rectifiers", 2015, section 2.2). kLogits: gain 3. kZero starts all weights
  // at 0, for a model that is one linear layer.
  enum class Init { kRelu, kLogits, kZero };

  // The part of the layer that the ranks of LayerContext::tensor_group divide; the number of
  // features must be a multiple of theirs.
  enum class Division {
    // Every rank computes the whole layer, and the same gradients.
    kNone,
    // A rank computes its part of the outputs, [B, out_features / ranks], from all inputs.
    // Gradients
    // of the inputs are sums over the ranks.
    kOutputs,
    // A rank has its part of the inputs, [B, in_features / ranks]. The outputs are sums over the
    // ranks, to which the first adds the bias.
    kInputs,
  };

  struct Options {
    Init init = Init::kRelu;
    Division division = Division::kNone;
    // Without one, the layer's only tensor is its weight.
    bool bias = true;
  };

  LinearLayer(int64_t in_features, int64_t out_features, const Options& options)
      : in_features_(in_features), out_features_(out_features), options_(options) {}

  // Return the features of the whole layer.
  int64_t in_features() const override { return in_features_; }
  int64_t out_features() const override { return out_features_; }
  // Returns the features that this rank has of an example.
  int64_t LocalIn(const LayerContext& context) const;
  int64_t LocalOut(const LayerContext& context) const;
  // `name`.weight and `name`.bias; the bias takes no weight decay.
  void AppendTensors(const std::string& name, uint32_t unit,
                     std::vector<TensorSpec>& tensors) const override;
  void Forward(const LayerContext& context, ParameterSpans parameters, absl::Span<const float> in,
               absl::Span<float> out) const override;
  // Does not read inputs.in and inputs.out. REQUIRES: kWrite if ranks divide the outputs.
  void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                     const BackwardInputs& inputs, Accumulation accumulation,
                     absl::Span<float> in_gradient) const override;
  // Does not read inputs.out.
  void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                       GradientSpans gradients) const override;

 private:
  // Returns whether this rank adds the bias, and makes its gradient.
  bool HasBias(const LayerContext& context) const;

  const int64_t in_features_;
  const int64_t out_features_;
  const Options options_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_LINEAR_LAYER_H_
