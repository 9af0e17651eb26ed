#ifndef MUSTER_COMMON_BASE_LOST_STATE_H_
#define MUSTER_COMMON_BASE_LOST_STATE_H_

#include "absl/status/status.h"

namespace muster {

// What an error says that a job needs and that is no more, beside its code and message: trying
// again does not help, going back to a checkpoint does. Travels with the status, over gRPC too
// (common/rpc/rpc_status.h).
enum class LostState {
  kNone = 0,
  // A server that had a generation's values and log has them no more, or only damaged.
  kServerState = 1,
  // The checkpoint that a generation starts from cannot be read.
  kCheckpoint = 2,
};

// The status with the loss noted, unless one is noted already. OK stays OK.
absl::Status WithLostState(absl::Status status, LostState lost);

LostState LostStateOf(const absl::Status& status);

// The status with the loss noted if it is DATA_LOSS, else as it is.
absl::Status DataLossIs(absl::Status status, LostState lost);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_LOST_STATE_H_
