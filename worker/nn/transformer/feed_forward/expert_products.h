#ifndef MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_PRODUCTS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_PRODUCTS_H_

#include <cstdint>

#include "common/compute/expert_ops.h"
#include "common/kernels/accumulation.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// Rows of tokens in order of expert, as some experts compute them. Letters as in
// transformer_activations.h.
struct RowsOfExperts {
  int64_t experts = 0;
  int64_t rows = 0;                      // R
  const int32_t* offsets = nullptr;      // [experts + 1]
  const int32_t* assignments = nullptr;  // [R]: where a row's weight is
  const float* weights = nullptr;
};

// The feed-forward layers of experts, each of which computes its own rows: two matrices, and
// between them the activation function times the row's weight. Holds shapes only. Thread-safe.
class ExpertProducts {
 public:
  explicit ExpertProducts(const TransformerShape& shape)
      : C_(shape.width),
        F_(shape.experts.width),
        U_(shape.UpWidth(shape.experts.width)),
        gated_(shape.activation == TransformerShape::Activation::kSwiGlu) {}

  // up T [R, U'] = x T [R, C] · weightᵀ.
  void MakeUp(const ComputeContext& own, const RowsOfExperts& rows, const void* x,
              const void* weight, void* up) const;
  // activated T [R, F'] = weighted activation of `up`.
  void Activate(const ComputeContext& own, const RowsOfExperts& rows, const void* up,
                void* activated) const;
  // out T [R, C] = activated · weightᵀ.
  void MakeOut(const ComputeContext& own, const RowsOfExperts& rows, const void* activated,
               const void* weight, void* out) const;

  // `dout` T [R, C] is the gradient of what MakeOut makes.
  void BackwardOutWeights(const ComputeContext& own, const RowsOfExperts& rows, const void* dout,
                          const void* activated, Accumulation accumulation, float* weight) const;
  // Makes dup T [R, U'] and dweights, by assignment; inner T [R, F'] is overwritten.
  void BackwardOut(const ComputeContext& own, const RowsOfExperts& rows, const void* dout,
                   const void* weight, const void* up, void* inner, void* dup,
                   float* dweights) const;
  void BackwardUpWeights(const ComputeContext& own, const RowsOfExperts& rows, const void* dup,
                         const void* x, Accumulation accumulation, float* weight) const;
  // dx T [R, C] = dup · weight.
  void BackwardUp(const ComputeContext& own, const RowsOfExperts& rows, const void* dup,
                  const void* weight, void* dx) const;

 private:
  ExpertLinear Up(const ComputeContext& own, const RowsOfExperts& rows) const;
  ExpertLinear Out(const ComputeContext& own, const RowsOfExperts& rows) const;
  ExpertActivation Activation(const ComputeContext& own, const RowsOfExperts& rows) const;

  const int64_t C_, F_, U_;
  const bool gated_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_EXPERT_PRODUCTS_H_
