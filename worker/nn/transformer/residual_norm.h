#ifndef MUSTER_WORKER_NN_TRANSFORMER_RESIDUAL_NORM_H_
#define MUSTER_WORKER_NN_TRANSFORMER_RESIDUAL_NORM_H_

#include <string>

#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// Takes a branch into the residual stream, with dropout, and normalises the result: what stands
// before every branch and before the head. Holds shapes only. Thread-safe.
class ResidualNorm {
 public:
  // `branch_name` keys the dropout of the branch that comes in, such as "block3.attention";
  // empty where no branch comes in, or in evaluations alone.
  ResidualNorm(const TransformerShape& shape, std::string branch_name);

  // kept.sum = in.sum + dropout(in.branch); out, T [n, C], = norm(kept.sum). Without a branch
  // in.sum must be kept.sum. All arrays are of the rank's own rows.
  void Forward(const ComputeContext& context, const NormWeights& weights, const ResidualStream& in,
               const NormActivations& kept, void* out) const;

  // Where the gradient with regard to kept.sum that does not come by the norm is.
  enum class Upstream {
    // There is none: nothing reads the stream after this norm.
    kNone,
    // In stream_gradient.
    kStream,
  };

  // Makes of branch_gradient, T [n, C], which is that of `out`, the gradient of in.branch, unless
  // that is the stream's (BranchGradient) or there is no branch; stream_gradient becomes that of
  // in.sum. Leaves the parameters' gradients as `context` says.
  void Backward(const ComputeContext& context, const NormWeights& weights,
                const NormActivations& kept, Upstream upstream, float* stream_gradient,
                void* branch_gradient, const LayerGradients& gradients) const;

  // Returns the gradient of a branch that Backward left: branch_gradient or, where no conversion
  // and no dropout lies between, the stream's own. With a split backward always the former, which
  // stays when the stream's changes.
  static const void* BranchGradient(const ComputeContext& context, const TransformerShape& shape,
                                    const float* stream_gradient, const void* branch_gradient);

 private:
  NormShape KernelShape(const ComputeContext& context) const;
  OpDropout DropoutOfBranch(const ComputeContext& context) const;

  const TransformerShape shape_;
  const std::string branch_name_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_RESIDUAL_NORM_H_
