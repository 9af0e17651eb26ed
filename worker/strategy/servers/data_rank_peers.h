#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DATA_RANK_PEERS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DATA_RANK_PEERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/nn/layer.h"
#include "worker/strategy/training_state.h"

namespace muster {

// The other ranks of a slot's data rank, as far as a strategy on servers deals with them. All of
// them make the same calls in the same order. Errors are those of collective calls. Used by one
// thread.
class DataRankPeers {
 public:
  virtual ~DataRankPeers() = default;

  // Returns the least of the first clocks that the ranks bring. What the group has moved counts
  // from here on; calls before have formed groups and memory.
  virtual absl::StatusOr<uint64_t> Begin(uint64_t closed) = 0;

  // Returns the least of the values that the ranks bring, each below 2^63. `what` names the value
  // in the records of calls.
  virtual absl::StatusOr<uint64_t> Least(absl::string_view what, uint64_t value) = 0;

  // Sums the unit's gradients of elements of which several ranks have computed a part, by tensor
  // index. Once per push of the unit, when its gradients are complete.
  virtual absl::Status SumShared(int unit, GradientSpans gradients) = 0;

  // Adds to the unit's gradients what other stages have computed of them, where this rank's stage
  // pushes them; there they are complete when this returns. Elsewhere they are lent until
  // AwaitLent. Once a step, as above, after it.
  virtual absl::Status AddTied(int unit, GradientSpans gradients) = 0;

  // Waits until the step's gradients are no longer lent.
  virtual absl::Status AwaitLent() = 0;

  // Adds what the calls of the group have moved, and the time that they have taken.
  virtual void AddTo(StrategyCounters& counters) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DATA_RANK_PEERS_H_
