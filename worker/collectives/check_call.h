#ifndef MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_
#define MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_

#include "absl/status/status.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// InvalidArgument: the call is wrong in itself on rank `rank` of `size`: a pointer is missing,
// buffers overlap that are not the same, counts of another length, a root that is no rank. Names
// the field, its value and what would be right.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_CHECK_CALL_H_
