#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/layer.h"
#include "worker/strategy/group/gradients/call_order.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Adds up what two stages compute of the gradients of tensors that both have (TensorSpec::stages):
// an embedding, and the head that is tied to it. Used by one thread.
//
//   both step the tensors        SumOnBoth, once a step, when each has summed over its data ranks;
//                                a rank sends the f32 sums of its slice of these tensors
//   servers step them            SumOnFirst for each unit, then AwaitSent; the second stage sends
//                                its part in messages, and the first pushes the sum
//
// Either way both have, or the first has, the same bits whatever the order of their passes.
class TiedSums {
 public:
  // `stages` are the ranks of the two stages with the same shares or slices of these tensors, the
  // stage of the tensors' own units first; they outlive this. `tensors` are this rank's shares.
  // Each call may take `timeout`. `order` is that between sums in device memory and what computes
  // them, and outlives this; null: they lie in the host's memory. FailedPrecondition: other than
  // two stages have a tensor, or the tensor's own unit is not on the first of them.
  static absl::StatusOr<std::unique_ptr<TiedSums>> Create(Communicator& stages,
                                                          absl::Span<const TensorSpec> tensors,
                                                          absl::Duration timeout,
                                                          CallOrder* order = nullptr);
  // Ends messages that are under way, with all calls of the stages.
  ~TiedSums();

  // Adds up the stages' sums, which are given by tensor, and blocks until that is done; a
  // collective call of both. Errors are the communicator's and those of the computation.
  absl::Status SumOnBoth(absl::Span<const absl::Span<float>> sums);

  // Once a step for each unit, when the unit's gradients are complete here. On the first stage it
  // blocks until they are the sums. On the second, which does not wait for the first, they stay as
  // they are until AwaitSent: the first may need its other gradients before it comes to its own
  // part. Errors here and below are the communicator's.
  absl::Status SumOnFirst(int unit, GradientSpans gradients);
  // Waits until the step's messages are sent.
  absl::Status AwaitSent();

  // Makes the first stage's weights those of both, because initial values may differ in their last
  // bit from machine to machine; a collective call of both. REQUIRES: no weights are placed
  // elsewhere.
  absl::Status CopyWeights(ShardState& state);

 private:
  TiedSums(Communicator& stages, absl::Span<const TensorSpec> tensors, absl::Duration timeout,
           CallOrder* order);

  absl::Status Receive(absl::Span<float> gradient);
  void Send(absl::Span<const float> gradient);

  Communicator& stages_;
  const absl::Duration timeout_;
  CallOrder* const order_;
  // The tensors that both stages have.
  struct Tied {
    int tensor = 0;
    int unit = 0;
  };
  std::vector<Tied> tied_;
  std::vector<float> received_;
  std::vector<std::shared_ptr<Work>> sends_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_SUMS_H_
