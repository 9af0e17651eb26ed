#ifndef MUSTER_WORKER_NN_TRANSFORMER_DISPATCHED_EXPERTS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_DISPATCHED_EXPERTS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "common/compute/expert_dispatch.h"
#include "worker/nn/transformer/compute_context.h"
#include "worker/nn/transformer/expert_products.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

// Experts that ranks share out (ComputeContext::expert_group): rows travel to the ranks of their
// experts, which compute them, and their results come back to their places. First ranks tell one
// another how many rows each expert gets, then rows go in rounds (ExpertDispatch), whose memory is
// bounded. Forward makes the rounds from the last to the first, whose activations remain for
// backward; backward makes those of the other rounds again. Gradients of experts' weights are made
// round by round, while the rows are there, even where backward is split: so sums have one order.
// Holds shapes only. Thread-safe.
class DispatchedExperts {
 public:
  explicit DispatchedExperts(const TransformerShape& shape)
      : shape_(shape), experts_(shape.experts), products_(shape) {}

  // Computes something else while the first messages travel.
  using Beside = absl::FunctionRef<void()>;

  // Makes scratch.returned_rows of the tokens x, T [n, C], which are activations.norm2_out; and
  // rank_counts.
  void Forward(const ComputeContext& own, const BlockWeights& weights,
               const BlockActivations& activations, const BlockScratch& scratch,
               Beside beside) const;
  // Makes the activations of the first round again, of rank_counts.
  void Recompute(const ComputeContext& own, const BlockWeights& weights,
                 const BlockActivations& activations, const BlockScratch& scratch) const;
  // Makes the first round's `activated` again, of `up`.
  void Activate(const ComputeContext& own, const BlockActivations& activations,
                const BlockScratch& scratch) const;
  // Leaves the gradients of this rank's experts; makes scratch.returned_rows, the gradient of own
  // rows, and weights_gradient. `dout` T [n, C].
  void Backward(const ComputeContext& own, const BlockWeights& weights,
                const BlockActivations& activations, const void* dout, void* expert_up,
                const BlockScratch& scratch, const BlockGradients& gradients, Beside beside) const;

 private:
  struct Call {
    const ComputeContext& own;
    const BlockActivations& activations;
    const BlockScratch& scratch;
  };
  int64_t own_rows(const Call& call) const { return call.own.rows.count() * experts_.top_k; }
  RowsOfExperts Hosted(const Call& call) const;
  ExpertDispatch Dispatch(const Call& call) const;
  void GatherRows(const Call& call, const void* x) const;
  void GatherWeights(const Call& call) const;
  // Starts to send own rows to the ranks of their experts: T [.., C] to `hosted`; and weights, too,
  // unless `weights` is null.
  void StartOut(const Call& call, const ExpertDispatch::Round& round, void* hosted,
                float* weights) const;
  // Sends the results of the round back, and waits for those of own rows; and weights' gradients.
  void Return(const Call& call, const ExpertDispatch::Round& round, bool gradients) const;
  // Takes the round's rows and weights of activations.norm2_out, and makes its activations.
  void Take(const Call& call, const BlockWeights& weights, const ExpertDispatch::Round& round,
            Beside beside) const;
  void SetOffsets(const Call& call, const ExpertDispatch::Round& round) const;

  const TransformerShape shape_;
  const ExpertShape experts_;
  const ExpertProducts products_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_DISPATCHED_EXPERTS_H_
