#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STATE_BROADCAST_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STATE_BROADCAST_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// The contents of a state.
enum class StateContent {
  // The parameters after the steps that its clock says.
  kWhole,
  // The state is not filled yet, or partly overwritten: unusable until it is reset or filled.
  kNothing,
  // Weights and optimizer state are elsewhere.
  kHandedOver,
};

// Makes the state of rank `source` that of all ranks with the same shard, to the bit: weights,
// optimizer state, steps, rows and clock. A collective call of these ranks. Each call within it may
// take `timeout`. Sends the state's bytes, in calls of at most 64 MiB.
//
// `content` says what this rank's state holds, before and after, also after an error. States of one
// shard and job with equal clocks are equal, so a rank that is as far as the source keeps a whole
// state even if the call fails half-way. Errors are the communicator's. REQUIRES: all states have
// the same schema; the source's is kWhole.
absl::Status BroadcastState(Communicator& communicator, int source, absl::Duration timeout,
                            ShardState& state, StateContent& content);

// Sends the state to rank `to`, which calls ReceiveState: weights, optimizer state, steps, rows and
// clock. In calls of at most 64 MiB, each of which may take `timeout`. Errors are the
// communicator's.
absl::Status SendState(Communicator& communicator, int to, absl::Duration timeout,
                       ShardState& state);

// Receives the state of the same shard from rank `from`. After an error the contents of `state` are
// undefined.
absl::Status ReceiveState(Communicator& communicator, int from, absl::Duration timeout,
                          ShardState& state);

// Broadcasts weights alone: those of parts that expert ranks divide, or of the others.
absl::Status BroadcastWeights(Communicator& communicator, int source, absl::Duration timeout,
                              bool of_experts, ShardState& state);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_STATE_BROADCAST_H_
