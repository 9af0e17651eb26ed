#ifndef MUSTER_WORKER_NN_LAYERS_FACTORIZATION_MACHINE_LAYER_H_
#define MUSTER_WORKER_NN_LAYERS_FACTORIZATION_MACHINE_LAYER_H_

#include "worker/nn/layer.h"

namespace muster {

// Second-order interactions of F vectors v_f of D floats per example (Rendle, "Factorization
// Machines", 2010, section III.B): out = Σ_{f<g} ⟨v_f, v_g⟩ = ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²), at
// O(F·D) a call. Has no parameters.
class FactorizationMachineLayer final : public Layer {
 public:
  struct Shape {
    int64_t fields = 0;
    int64_t dim = 0;
    // Features of the input after the vectors, which take no part: their gradient is 0.
    int64_t others = 0;
  };

  explicit FactorizationMachineLayer(const Shape& shape) : shape_(shape) {}

  int64_t in_features() const override { return shape_.fields * shape_.dim + shape_.others; }
  int64_t out_features() const override { return 1; }
  void AppendTensors(const std::string& name, uint32_t unit,
                     std::vector<TensorSpec>& tensors) const override;
  void Forward(const LayerContext& context, ParameterSpans parameters, absl::Span<const float> in,
               absl::Span<float> out) const override;
  // Does not read inputs.out.
  void BackwardInput(const LayerContext& context, ParameterSpans parameters,
                     const BackwardInputs& inputs, Accumulation accumulation,
                     absl::Span<float> in_gradient) const override;
  void BackwardWeights(const LayerContext& context, const BackwardInputs& inputs,
                       GradientSpans gradients) const override;

 private:
  const Shape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_FACTORIZATION_MACHINE_LAYER_H_
