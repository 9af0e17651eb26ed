#ifndef MUSTER_WORKER_NN_LAYER_H_
#define MUSTER_WORKER_NN_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/layer_context.h"

namespace muster {

// Parameter values by tensor; each span lies in an arena that the strategy owns.
using ParameterSpans = absl::Span<const absl::Span<const float>>;
// Gradients likewise, which a backward pass writes or adds to (LayerContext::gradients).
using GradientSpans = absl::Span<const absl::Span<float>>;

// What a backward call reads of its forward call, which the caller kept, and the gradient that came
// back so far.
struct BackwardInputs {
  // [B, in_features] and [B, out_features], as the forward call read and wrote them.
  absl::Span<const float> in;
  absl::Span<const float> out;
  // [B, out_features].
  absl::Span<const float> out_gradient;
};

// A differentiable function of B examples, row-major f32: [B, in_features] to [B, out_features].
// Holds shapes only, so one layer serves any number of micro-batches and stages at once; the
// backward pass is two calls, so that a schedule may put one of them off. Spans must have the
// stated extents, B being that of the input; B may be 0. Thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual int64_t in_features() const = 0;
  virtual int64_t out_features() const = 0;

  // Appends the layer's tensors, named `name`.weight and so on, in the order in which the calls
  // below take them.
  virtual void AppendTensors(const std::string& name, uint32_t unit,
                             std::vector<TensorSpec>& tensors) const = 0;

  virtual void Forward(const LayerContext& context, ParameterSpans parameters,
                       absl::Span<const float> in, absl::Span<float> out) const = 0;

  // The gradient with regard to the input, [B, in_features].
  virtual void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                             const BackwardInputs& inputs, Accumulation accumulation,
                             absl::Span<float> in_gradient) const = 0;

  // Leaves the gradients with regard to the parameters as `context` says.
  virtual void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                               GradientSpans gradients) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYER_H_
