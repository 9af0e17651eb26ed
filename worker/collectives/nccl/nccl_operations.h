#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_OPERATIONS_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_OPERATIONS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/nccl/nccl_handle.h"

namespace muster {

// Each collective is made of NCCL's operations so, with W ranks and P the bytes of a vector:
//
//   sum, avg, prod of f32 and f64, and every reduction of integers:
//     all-reduce, reduce, reduce-scatter with equal counts: NCCL's own; avg is a sum, then a kernel
//     that divides once (NCCL's own average multiplies every input first, and rounds W times more)
//   everything else that reduces (f16 and bf16, which NCCL's ring would add in the type itself,
//   rounding at every step; min and max of floating point, where NCCL drops NaNs; unequal counts):
//     fragment by fragment: all-to-all of the fragment's parts into scratch, a kernel that reduces
//     the rows in rank order in f32, then all-gather (or a send to the root) of the results. The
//     bytes of a ring, 2(W-1)/W·P, with f32 accuracy, at the price of more and shorter kernels.
//   all-gather with equal counts, broadcast: NCCL's own, as bytes
//   all-gather with unequal counts, all-to-all, send, receive: grouped ncclSend and ncclRecv, as
//     bytes; a rank's own part is copied on the device
//   barrier: an all-reduce of one byte
//
// The choice depends on what all ranks have in common, never on a rank's pointers. Pointers that
// are not aligned to their type, and an all-to-all in place, go through memory from the device's
// stream-ordered pool, which does not stop the device as cudaMalloc could.
struct NcclContext {
  // Communicator; null in a group of one, where calls are copies.
  NcclHandle* handle = nullptr;
  int rank = 0;
  int size = 1;
  cudaStream_t stream = nullptr;
  // Device memory for fragments; at least 64 bytes for every rank.
  std::byte* scratch = nullptr;
  size_t scratch_bytes = 0;
};

// Puts the call on the context's stream. Returns when NCCL has taken in all of it, long before the
// call is done. May wait for other ranks in a group's first calls, when they connect. REQUIRES: the
// call is valid; the context's device is current.
absl::Status QueueCall(const NcclContext& context, const CollectiveCall& call);

// Puts several sends and receives on the context's stream as one operation of NCCL, in which none
// waits for another. Otherwise as QueueCall.
absl::Status QueueMessages(const NcclContext& context, absl::Span<const CollectiveCall> messages);

// Returns the payload that QueueCall moves between this rank and the others. NCCL's own operations
// count as a ring; NCCL may choose another way.
CollectiveTraffic TrafficOf(const CollectiveCall& call, int rank, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_OPERATIONS_H_
