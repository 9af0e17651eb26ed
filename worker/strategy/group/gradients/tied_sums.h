#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/group/gradients/call_order.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Keeps equal what two stages have of the same tensors (TensorSpec::stages): an
// embedding and the head that is tied to it. Each of the two computes a part of the gradient, sums
// it over its own data ranks, and adds the other's sum, so both step the tensor with the same bits.
// A rank sends the f32 sums of its slice of these tensors once a step. Used by one thread.
class TiedSums {
 public:
  // `stages` are the ranks of the two stages with the same slices, the first stage's first; they
  // outlive this. `tensors` are the rank's shares. Each call may take `timeout`. `order` is that
  // between sums in device memory and what computes them, and outlives this; null: they lie in the
  // host's memory.
  TiedSums(Communicator& stages, absl::Span<const TensorSpec> tensors, absl::Duration timeout,
           CallOrder* order = nullptr);

  // Adds up the stages' sums, which are given by tensor, and blocks until that is done; a
  // collective call of both. Errors are the communicator's and those of the computation.
  absl::Status Add(absl::Span<const absl::Span<float>> sums);

  // Makes the first stage's weights those of both, because initial values may differ in their last
  // bit from machine to machine; a collective call of both. Errors are the communicator's.
  // REQUIRES: no weights are placed elsewhere.
  absl::Status CopyWeights(ShardState& state);

 private:
  Communicator& stages_;
  const absl::Duration timeout_;
  CallOrder* const order_;
  // Indices of the tensors that both stages have.
  std::vector<int> tied_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_
