#ifndef MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// A caller that waits for a reply, possibly for long: a parked call. Answered exactly once, also
// when it is cancelled or the coordinator shuts down.
template <typename Reply>
struct Call {
  // Must not block, nor call back into the coordinator.
  std::function<void(absl::StatusOr<Reply>)> done;
  // Set once nobody waits any more; null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled;

  bool gone() const { return cancelled != nullptr && cancelled->load(std::memory_order_acquire); }
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_CALL_H_
