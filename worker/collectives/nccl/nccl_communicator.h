#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/nccl/nccl_watch.h"

namespace muster {

// Communicator for device memory, by NCCL. How it keeps the interface's promises:
//
// - NCCL moves the data. A host communicator of the same ranks carries everything else: the unique
//   id that rank 0 makes, the ledger, failures and splits. It notices within a second when a rank
//   has died, which NCCL over NVLink never does.
// - Calls begin on the device at once, on the group's own stream, between two events if the call
//   names a stream. Meanwhile the ledger compares the ranks' calls (ledger_rounds.h); a call ends
//   well only when the device is done and every rank is known to have made the call. A mismatch,
//   which makes NCCL hang or write nonsense, is therefore an error that names rank and call. Until
//   the handle has ended well, `out` is undefined, though work may be queued behind the call: an
//   optimizer waits for the handles of all its buckets.
// - Every NCCL communicator is non-blocking, and one thread at a time is inside it (nccl_handle.h):
//   no thread is ever stuck in NCCL for good. Start may wait in a group's first calls, while NCCL
//   connects; a deadline or a failure ends that, too.
// - One thread watches deadlines for the whole process; one failure ends all groups (nccl_watch.h).
// - Some reductions are done here, on top of NCCL's transfers, because NCCL would add f16 and bf16
//   in the type or drop NaNs (nccl_operations.h).
// - A group of one has no NCCL communicator, which would cost 512 MiB of device memory.
//
// Differences from host groups: pointers are device memory. `deterministic` reductions are refused
// with InvalidArgument: NCCL chooses the order of additions by size and topology, which gives the
// same bits on every rank, and in every run with the same machines, sizes and version, but not one
// fixed order. Abort and failures end all groups of the process.
struct NcclGroupOptions {
  // Name in errors and the flight recorder, such as "world".
  std::string name = "world";
  // Names of the ranks in errors, by rank, such as "slot 2"; if empty, "rank 2".
  std::vector<std::string> names;
  // CUDA's ordinal of this rank's GPU. No two ranks may have the same GPU.
  int device = 0;
  // Time limit for making the group, and for each of its splits.
  absl::Duration timeout = absl::Minutes(2);
};

// Makes a group, as a collective call over `host`. The group splits off a host group for itself, so
// that `host` may be used for other things before and after, and may be destroyed at any time.
// `watch` is this process's for the job. All ranks fail if one does.
//   Unavailable        no GPU or driver; a rank has gone
//   ResourceExhausted  not enough device memory
//   DeadlineExceeded   not made within the timeout
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(std::shared_ptr<NcclWatch> watch,
                                                                   Communicator& host,
                                                                   const NcclGroupOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
