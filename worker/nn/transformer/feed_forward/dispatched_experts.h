#ifndef MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DISPATCHED_EXPERTS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DISPATCHED_EXPERTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "common/compute/expert_dispatch.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/feed_forward/expert_products.h"

namespace muster {

// Experts that ranks share out (ComputeContext::expert_group): rows travel to the ranks of their
// experts, which compute them, and their results come back to their places. First ranks tell one
// another how many rows each expert gets, then rows go in rounds (ExpertDispatch), whose memory is
// bounded. Forward makes the rounds from the last to the first, whose activations remain for
// backward; backward makes those of the other rounds again. Gradients of experts' weights are made
// round by round, while the rows are there, even where backward is split: so sums have one order.
//
// How many rows travel is known only when the layer runs. So whatever depends on it is an exchange
// of the group (ExpertGroup::Exchange), which a device does between graphs: one in forward, one or
// two in backward. Holds shapes only. Thread-safe. Outlives what its exchanges are recorded in.
class DispatchedExperts {
 public:
  // The layer is block number `layer`'s.
  DispatchedExperts(const TransformerShape& shape, int64_t layer)
      : shape_(shape), experts_(shape.experts), layer_(layer), products_(shape) {}

  // Computes something else while the first messages travel. Refers to nothing that does not live
  // as long as this.
  using Beside = std::function<void()>;

  // Makes scratch.returned_rows of the tokens x, T [n, C], which are activations.norm2_out; and
  // rank_offsets, in both memories.
  void Forward(const ComputeContext& own, const BlockWeights& weights,
               const BlockActivations& activations, const BlockScratch& scratch,
               Beside beside) const;
  // Makes the activations of the first round again, of rank_offsets.
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
  // An exchange works on this, by value: it may be done again after the call has returned.
  struct Call {
    ComputeContext own;
    BlockActivations activations;
    BlockScratch scratch;
  };
  using Round = ExpertDispatch::Round;

  int64_t own_rows(const Call& call) const { return call.own.rows.count() * experts_.top_k; }
  // Returns the rows that the rank takes in the round.
  RowsOfExperts Hosted(const Call& call, const Round& round) const;
  // Returns the block's rank_offsets in the host's memory.
  int32_t* OffsetsOnHost(const Call& call) const;
  ExpertDispatch Dispatch(const Call& call) const;
  void GatherRows(const Call& call, const void* x) const;
  void GatherWeights(const Call& call) const;
  // Says where rows are on one of their ends: T [.., C] and, unless null, their weights or the
  // gradients of these, [..].
  struct Place {
    void* rows = nullptr;
    float* weights = nullptr;
  };
  using RowsList = std::vector<ExpertDispatch::Rows>;
  // Starts to move rows from place to place, and with them what both places have beside them: own
  // rows to the ranks of their experts, or the other way.
  void Start(const Call& call, const RowsList& sent, const Place& from, const RowsList& taken,
             const Place& to) const;
  // Sends what is made of the rows that the rank took back to `to`, and waits for that of own rows.
  void Return(const Call& call, const Round& round, const Place& from, const Place& to) const;
  // Takes the round's rows and weights of activations.norm2_out, and makes its activations.
  void Take(const Call& call, const BlockWeights& weights, const Round& round,
            const Beside& beside) const;
  void ForwardRounds(const Call& call, const BlockWeights& weights, const Beside& beside) const;
  // The arrays of a backward pass.
  struct BackwardCall {
    Call call;
    BlockWeights weights;
    BlockGradients gradients;
    const void* dout = nullptr;
    void* expert_up = nullptr;
  };
  void BackwardRounds(const BackwardCall& backward, const Beside& beside) const;
  void BackwardRound(const BackwardCall& backward, const Round& round,
                     Accumulation accumulation) const;
  // Makes the order of the rows that the rank takes in the round.
  void OrderHosted(const Call& call, const Round& round) const;

  const TransformerShape shape_;
  const ExpertShape experts_;
  const int64_t layer_;
  const ExpertProducts products_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_FEED_FORWARD_DISPATCHED_EXPERTS_H_
