#ifndef MUSTER_COMMON_PLAN_MEMORY_SERVED_MESSAGES_H_
#define MUSTER_COMMON_PLAN_MEMORY_SERVED_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {

struct ModelSize;

// Returns whether values of this type travel in 16 bits.
bool IsHalf(v1::UpdateSpec::WireType wire);

// The memory of one worker's messages with servers. Pure; refers to its arguments.
class ServedMessages {
 public:
  // `held_as` is what a worker holds each of the model's tensors in.
  ServedMessages(const v1::JobSpec& spec, const ModelSize& model, const std::vector<DType>& held_as)
      : spec_(spec), model_(model), held_as_(held_as) {}

  // Returns the bytes of gradients that servers of other machines have received: at most a window,
  // or one unit's, and some wait there for other workers'. Those of a job's only worker stay until
  // the clock ends. The worker sends them from where they are computed, and a server of its machine
  // reads them there.
  uint64_t Gradients() const;
  // Returns the bytes of parameters on their way from servers, as far as the worker asks for them:
  // the unit that is due and the next at least. Those that come where they belong are left out.
  uint64_t Parameters() const;
  // Returns the same of ranks that compute together, where all are copied on the way.
  uint64_t CopiedParameters() const;
  // Returns the bytes of the gradient that the first of two stages with a tensor receives.
  uint64_t TiedGradients() const;

 private:
  const v1::JobSpec& spec_;
  const ModelSize& model_;
  const std::vector<DType>& held_as_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_SERVED_MESSAGES_H_
