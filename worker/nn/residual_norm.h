#ifndef MUSTER_WORKER_NN_RESIDUAL_NORM_H_
#define MUSTER_WORKER_NN_RESIDUAL_NORM_H_

#include <string>

#include "absl/types/optional.h"
#include "common/kernels/dropout.h"
#include "common/kernels/norm.h"
#include "common/tensor/bfloat16.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/transformer_arrays.h"
#include "worker/nn/transformer_shape.h"

namespace muster {

// Takes a branch into the residual stream, with dropout, and normalises the result: what stands
// before every branch and before the head. Holds shapes only. Thread-safe.
template <typename T>
class ResidualNorm {
 public:
  // `branch_name` keys the dropout of the branch that comes in, such as "block3.attention".
  ResidualNorm(const TransformerShape& shape, std::string branch_name);

  // kept.sum = in.sum + dropout(in.branch); out = norm(kept.sum). Without a branch in.sum must be
  // kept.sum.
  void Forward(const LayerContext& context, const TokenRows& rows, const NormWeights& weights,
               const ResidualStream<T>& in, const NormActivations& kept, T* out) const;

  // Where the gradient with regard to kept.sum that does not come by the norm is.
  enum class Upstream {
    // There is none: nothing reads the stream after this norm.
    kNone,
    // In stream_gradient.
    kStream,
  };

  // From `out_gradient`: stream_gradient becomes that of in.sum, and branch_gradient (which may be
  // out_gradient) that of in.branch unless StreamIsBranch(). Adds to the parameters' gradients.
  void Backward(const LayerContext& context, const TokenRows& rows, const NormWeights& weights,
                const NormActivations& kept, const T* out_gradient, Upstream upstream,
                float* stream_gradient, T* branch_gradient, const LayerGradients& gradients) const;

  // The gradient of a branch that Backward left: branch_gradient or, where no conversion and no
  // dropout lies between, the stream's own.
  static const T* BranchGradient(const TransformerShape& shape, const float* stream_gradient,
                                 const T* branch_gradient);

 private:
  NormShape KernelShape(const TokenRows& rows) const;
  absl::optional<DropoutMask> MaskOf(const LayerContext& context) const;
  DropoutShape MaskedShape(const TokenRows& rows) const;

  const TransformerShape shape_;
  const std::string branch_name_;
};

extern template class ResidualNorm<float>;
extern template class ResidualNorm<BFloat16>;
extern template class ResidualNorm<Float16>;

}  // namespace muster

#endif  // MUSTER_WORKER_NN_RESIDUAL_NORM_H_
