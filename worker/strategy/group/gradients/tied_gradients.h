#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_GRADIENTS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_GRADIENTS_H_

#include <cstdint>
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

namespace muster {

// Adds up the gradients of tensors that two stages have (TensorSpec::stages) where
// one of them pushes them: an embedding, and the head that is tied to it. Each has computed a part.
// The second stage sends its part in messages as soon as that is complete, and does not wait for
// the first: which may need its other gradients before it comes to its own part. The first adds
// what it receives to its own, so the sum has the same bits whatever the order of their passes.
// Used by one thread.
class TiedGradients {
 public:
  // `stages` are the ranks of the two stages with the same shares of these tensors, and outlive
  // this; the first of them is the stage that pushes. `tensors` are this rank's shares. Each
  // message may take `timeout`. FailedPrecondition: other than two stages have a tensor, or the
  // tensor's own unit is not on the first of them.
  static absl::StatusOr<std::unique_ptr<TiedGradients>> Create(Communicator& stages,
                                                               absl::Span<const TensorSpec> tensors,
                                                               absl::Duration timeout);
  // Ends messages that are under way, with all calls of the stages.
  ~TiedGradients();

  // Once a step for each unit, when the unit's gradients are complete here. On the first stage it
  // blocks until they are the sums. On the second they stay as they are until Finish. Errors here
  // and below are the communicator's.
  absl::Status Add(int unit, GradientSpans gradients);
  // Waits until the step's messages are sent.
  absl::Status Finish();

 private:
  TiedGradients(Communicator& stages, absl::Span<const TensorSpec> tensors, absl::Duration timeout);

  absl::Status Receive(absl::Span<float> gradient);
  void Send(absl::Span<const float> gradient);

  Communicator& stages_;
  const absl::Duration timeout_;
  // By unit, the tensors that both stages have.
  std::vector<std::vector<int>> tensors_;
  std::vector<float> received_;
  std::vector<std::shared_ptr<Work>> sends_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TIED_GRADIENTS_H_
