#ifndef MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_
#define MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_

#include "absl/status/status.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// Returns InvalidArgument if the call is wrong in itself on rank `rank` of `size`: a pointer is
// missing, buffers overlap without being the same, counts have the wrong length, or the root is no
// rank. The error names the field, its value and what would be right.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_
