#ifndef MUSTER_WORKER_STRATEGY_GROUP_CALL_ORDER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_CALL_ORDER_H_

#include "absl/status/status.h"

namespace muster {

// The order between collective calls and a computation that only queues: on a device, gradients are
// not there yet when the host starts their sum. Used by one thread.
class CallOrder {
 public:
  virtual ~CallOrder() = default;

  // Lets calls that start from now on come after what the computation has queued. An error: it has
  // failed, and nothing of it may leave.
  virtual absl::Status FollowComputation() = 0;

  // Returns CollectiveCall::stream of these calls.
  virtual void* stream() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_CALL_ORDER_H_
