#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TENSOR_RANKS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TENSOR_RANKS_H_

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
#include "common/partition/shared_sums.h"
#include "common/partition/tensor_spec.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/layer.h"
#include "worker/parallel/communicator_tensor_group.h"
#include "worker/strategy/group/gradients/slice_ops.h"

namespace muster {

// A rank needs this of those that compute its layers with it: their calls in passes, and the sums
// of gradients of elements that several of them have (TensorSpec::shared), where each computes a
// part only: key-value heads that ranks have in common, whose queries they divide, and replicated
// tensors if they divide the tokens. All of them then have the sum, to the same bits. Replicated
// tensors' gradients are otherwise equal already, and stay.
//
// A unit's elements that the same ranks have make one all-reduce in f32. On a device this is queued
// behind what made the gradients, and before what is queued afterwards. Used by one thread.
class TensorRanks {
 public:
  struct Options {
    // True if the ranks compute different tokens of replicated tensors.
    bool divides_tokens = false;
    // The timeout of each call.
    absl::Duration timeout = absl::Minutes(10);
    // The operations on gradients, in the memory of the group. Outlive this.
    SliceOps* ops = &HostSliceOps();
    // Makes the calls.
    CommunicatorTensorGroup::RunCall run = [](Communicator& group, const CollectiveCall& call) {
      return group.Run(call);
    };
  };

  // Makes the groups of ranks that share elements; a collective call of the tensor group, which
  // outlives this. Null: the rank is alone, and gets null. `tensors` are the rank's shares. Errors
  // are the communicator's.
  static absl::StatusOr<std::unique_ptr<TensorRanks>> Create(Communicator* tensor_group,
                                                             absl::Span<const TensorSpec> tensors,
                                                             const Options& options);

  TensorGroup& group() { return group_; }

  // Sums the unit's gradients over the ranks that share them; a collective call of the tensor
  // group, which makes no calls for units without such elements. To be called once, when the unit's
  // gradients are complete, and before anything else reads them. Errors are the communicator's.
  absl::Status Sum(int unit, GradientSpans gradients);

  // Returns the traffic of the tensor group and of those made of it, and the records of the latter.
  CollectiveTraffic traffic() const;
  std::vector<const FlightRecorder*> recorders() const;

 private:
  // The elements of a unit that the ranks of a group share.
  struct Call {
    Communicator* group = nullptr;
    SharedSum sum;
    std::string label;
  };

  TensorRanks(Communicator& tensor_group, const Options& options)
      : options_(options),
        communicator_(tensor_group),
        group_(tensor_group, options.timeout, options.run) {}

  // Allocates the memory of calls; a collective call.
  absl::Status Allocate();
  static absl::Span<float> ElementsOf(const SharedSum::Elements& some, GradientSpans gradients);
  float* PackedOf(const Call& call) {
    return reinterpret_cast<float*>(packed_[call.group]->bytes().data());
  }

  const Options options_;
  const Communicator& communicator_;
  CommunicatorTensorGroup group_;
  // The groups by number of ranks.
  std::map<int, std::unique_ptr<Communicator>> groups_;
  // The calls by unit.
  std::vector<std::vector<Call>> calls_;
  // The values of a call, by its group.
  std::map<Communicator*, std::unique_ptr<CollectiveBuffer>> packed_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_TENSOR_RANKS_H_
