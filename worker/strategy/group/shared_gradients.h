#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARED_GRADIENTS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARED_GRADIENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/layer.h"

namespace muster {

// Sums the gradients of elements that several tensor ranks have (TensorSpec::shared), where each of
// them computes a part only: key-value heads that ranks have in common, whose queries they divide,
// and replicated tensors if they divide the tokens. All of them then have the sum, to the same
// bits. Replicated tensors' gradients are otherwise equal already, and stay.
//
// A unit's elements that the same ranks have make one all-reduce in f32. Used by one thread.
class SharedGradients {
 public:
  struct Options {
    // True if the ranks compute different tokens of replicated tensors.
    bool divides_tokens = false;
    // The timeout of each call.
    absl::Duration timeout = absl::Minutes(10);
  };

  // Makes the groups of ranks that share elements; a collective call of the tensor group, which
  // outlives this. `tensors` are the rank's shares. Errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<SharedGradients>> Create(
      Communicator& tensor_group, absl::Span<const TensorSpec> tensors, const Options& options);

  // Sums the unit's gradients over the ranks that share them; a collective call of the tensor
  // group, which makes no calls for units without such elements. To be called once, when the unit's
  // gradients are complete, and before anything else reads them. Errors are the communicator's.
  absl::Status Sum(int unit, GradientSpans gradients);

  // Returns the traffic and the records of calls of groups that are not the tensor group.
  CollectiveTraffic traffic() const;
  std::vector<const FlightRecorder*> recorders() const;

 private:
  // Elements [begin, end) of a tensor.
  struct Elements {
    size_t tensor = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // The elements of a unit that the ranks of a group share.
  struct Call {
    Communicator* group = nullptr;
    std::vector<Elements> elements;
    std::string label;
  };

  explicit SharedGradients(const Options& options) : options_(options) {}

  const Options options_;
  // By number of ranks.
  std::map<int, std::unique_ptr<Communicator>> groups_;
  // By unit.
  std::vector<std::vector<Call>> calls_;
  // The values of a call.
  std::vector<float> packed_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARED_GRADIENTS_H_
