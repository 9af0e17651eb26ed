#ifndef MUSTER_COMMON_BASE_LOST_STATE_H_
#define MUSTER_COMMON_BASE_LOST_STATE_H_

#include "absl/status/status.h"

namespace muster {

// State that a job needs and that is lost, noted in an error beside its code and message: trying
// again does not help, going back to a checkpoint does. Travels with the status, also over gRPC
// (common/rpc/rpc_status.h).
enum class LostState {
  kNone = 0,
  // A server that had a generation's values and log has lost them, or they are damaged.
  kServerState = 1,
  // The checkpoint that a generation starts from cannot be read.
  kCheckpoint = 2,
};

// Returns the status with the loss noted, unless a loss is noted already. OK stays OK.
absl::Status WithLostState(absl::Status status, LostState lost);

LostState LostStateOf(const absl::Status& status);

// Returns the status with the loss noted if the status is DATA_LOSS, otherwise unchanged.
absl::Status DataLossIs(absl::Status status, LostState lost);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_LOST_STATE_H_
