#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_CALL_ORDER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_CALL_ORDER_H_

#include "absl/status/status.h"

namespace muster {

// The order between collective calls and a computation that only queues its work: on a device,
// gradients are not there yet when the host starts their sum. Used by one thread.
class CallOrder {
 public:
  virtual ~CallOrder() = default;

  // Makes calls that start from now on wait for what the computation has queued. Returns an error
  // if the computation has failed; its results must then not be sent.
  virtual absl::Status FollowComputation() = 0;

  // Returns the stream for these calls (CollectiveCall::stream).
  virtual void* stream() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_CALL_ORDER_H_
