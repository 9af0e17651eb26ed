#ifndef MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/coordinator/calls/shared_reply.h"

namespace muster {

// A parked call: a caller that waits for a reply, possibly for long. Answered exactly once, also
// when it is cancelled or the coordinator shuts down.
template <typename Reply>
struct Call {
  // Takes the reply. Must not block or call back into the coordinator.
  std::function<void(absl::StatusOr<Reply>)> done;
  // Set once the caller no longer waits; null: never set.
  std::shared_ptr<const std::atomic<bool>> cancelled;
  // Takes, in place of `done`, a reply that other callers get, too. Null: `done` takes a copy.
  std::function<void(const SharedReply<Reply>&)> done_alike;

  void Answer(const SharedReply<Reply>& reply) const {
    if (done_alike != nullptr) {
      done_alike(reply);
    } else {
      done(reply.message());
    }
  }

  bool gone() const { return cancelled != nullptr && cancelled->load(std::memory_order_acquire); }
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_
