#ifndef MUSTER_WORKER_STRATEGY_GROUP_STATE_BROADCAST_H_
#define MUSTER_WORKER_STRATEGY_GROUP_STATE_BROADCAST_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// What a state holds.
enum class StateContent {
  // The parameters after the steps that its clock says.
  kWhole,
  // Not yet filled, or part of one and part of another: of no use until it is reset or filled.
  kNothing,
};

// A collective call of ranks that have the same shard: every rank's state becomes that of rank
// `source`, to the bit: weights, optimizer state, steps, rows and clock. Each call within it may
// take `timeout`. Costs the state's bytes on the wire, in calls of at most 64 MiB.
//
// `content` is that of this rank's state, before and after, also after an error. States of one
// shard and job with equal clocks are equal, so a rank that is as far as the source keeps a whole
// state even if the call fails half-way. Errors are the communicator's. REQUIRES: states of the
// same schema; kWhole on the source.
absl::Status BroadcastState(Communicator& communicator, int source, absl::Duration timeout,
                            ShardState& state, StateContent& content);

// Broadcasts the weights alone.
absl::Status BroadcastWeights(Communicator& communicator, int source, absl::Duration timeout,
                              ShardState& state);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_STATE_BROADCAST_H_
