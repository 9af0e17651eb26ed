#ifndef MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_
#define MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/nn/layer.h"
#include "worker/nn/layers/linear_layer.h"
#include "worker/nn/layers/relu_layer.h"

namespace muster {

// A stack of linear layers with a ReLU after each but the last, one layer unit per linear layer:
// what the models' dense parts are made of. Holds shapes only. Thread-safe.
//
// Ranks of a tensor group divide the layers in pairs: the outputs of layer 0 and the inputs of
// layer 1, the outputs of 2 and the inputs of 3, and so on, so that a pair makes one sum of its
// outputs forward and, unless it is the first, one of its inputs' gradients backward. If the number
// of layers is odd, all ranks compute the whole last one. So every rank has all logits. The widths
// of hidden layers 0, 2, 4, … are multiples of the number of ranks.
class Perceptron {
 public:
  struct Shape {
    int64_t in_features = 0;
    std::vector<int64_t> hidden;
    int64_t out_features = 0;
    // Index of the stack's first tensor among the model's.
    int first_tensor = 0;
  };

  // One micro-batch's activations, which it keeps between forward and backward.
  struct Activations {
    int64_t examples = 0;
    // [B, in_features]: given by the model before the first unit's forward, and left alone until
    // its backward.
    absl::Span<const float> in;
    // [B, in_features]: where the first unit's backward writes the input's gradient; empty: it is
    // not wanted.
    absl::Span<float> in_gradient;
    // The outputs of each unit, [B, width], where the width is what this rank has of the unit's
    // outputs: the output after the ReLU. The last one holds the logits, which the model replaces
    // by their gradient before the backward pass.
    std::vector<std::vector<float>> out;
    // The gradients of the outputs of all units but the last, [B, width].
    std::vector<std::vector<float>> out_gradient;
  };

  explicit Perceptron(const Shape& shape);

  int units() const { return static_cast<int>(linear_.size()); }

  // Returns how many of the unit's outputs of one example this rank has.
  int64_t OutWidth(const LayerContext& context, int unit) const {
    return linear_[unit].LocalOut(context);
  }

  // Appends hidden0.weight, hidden0.bias, …, output.weight, output.bias, of units 0 to units() - 1.
  // REQUIRES: tensors.size() is first_tensor.
  void AppendTensors(std::vector<TensorSpec>& tensors) const;

  // Prepares for B examples. Passes size the buffers, and allocate only where one grows.
  void Begin(int64_t examples, Activations& activations) const;

  // `parameters` and `gradients` are those of the whole model, of which a rank has its shares. Both
  // return the error of the tensor group, if it has one.
  absl::Status Forward(const LayerContext& context, int unit, ParameterSpans parameters,
                       Activations& activations) const;
  absl::Status Backward(const LayerContext& context, int unit, ParameterSpans parameters,
                        GradientSpans gradients, Activations& activations) const;

 private:
  const int first_tensor_;
  std::vector<LinearLayer> linear_;  // Const after construction, like relu_.
  std::vector<ReluLayer> relu_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_PERCEPTRON_H_
