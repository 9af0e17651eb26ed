#ifndef MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_
#define MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/nn/layer.h"
#include "worker/nn/layers/linear_layer.h"
#include "worker/nn/layers/relu_layer.h"

namespace muster {

// A stack of linear layers with a ReLU after each but the last, one layer unit per linear layer:
// what the models' dense parts are made of. Holds shapes only. Thread-safe.
class Perceptron {
 public:
  struct Shape {
    int64_t in_features = 0;
    std::vector<int64_t> hidden;
    int64_t out_features = 0;
    // Index of the stack's first tensor among the model's.
    int first_tensor = 0;
  };

  // What one micro-batch keeps between forward and backward.
  struct Activations {
    // [B, in_features]: given by the model before the first unit's forward, and left alone until
    // its backward.
    absl::Span<const float> in;
    // [B, in_features]: where the first unit's backward writes the input's gradient; empty: it is
    // not wanted.
    absl::Span<float> in_gradient;
    // By unit, [B, width]: the output after the ReLU. The last one holds the logits, which the
    // model replaces by their gradient before the backward pass.
    std::vector<std::vector<float>> out;
    // By unit but the last, [B, width].
    std::vector<std::vector<float>> out_gradient;
  };

  explicit Perceptron(const Shape& shape);

  int units() const { return static_cast<int>(linear_.size()); }

  // Appends hidden0.weight, hidden0.bias, …, output.weight, output.bias, of units 0 to units() - 1.
  // REQUIRES: tensors.size() is first_tensor.
  void AppendTensors(std::vector<TensorSpec>& tensors) const;

  // Sizes all buffers for B examples; allocates only where one grows.
  void Resize(int64_t examples, Activations& activations) const;

  // `parameters` and `gradients` are those of the whole model.
  void Forward(const LayerContext& context, int unit, ParameterSpans parameters,
               Activations& activations) const;
  void Backward(const LayerContext& context, int unit, ParameterSpans parameters,
                GradientSpans gradients, Activations& activations) const;

 private:
  const int first_tensor_;
  std::vector<LinearLayer> linear_;  // const after construction, like relu_
  std::vector<ReluLayer> relu_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_
