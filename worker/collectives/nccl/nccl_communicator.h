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
// - NCCL moves the data, a host communicator of the same ranks carries everything else: the unique
//   id that rank 0 makes, the ledger, failures and splits. It knows within a second when a rank has
//   died, which NCCL over NVLink never does.
// - Calls begin on the device at once, on the group's own stream, between two events if the call
//   names a stream. That all ranks made the same call is found out meanwhile (ledger_rounds.h); a
//   call ends well only when the device is done and every rank was seen to make it. A mismatch,
//   which makes NCCL hang or write nonsense, is therefore an error that names rank and call; until
//   the handle has ended well, nothing may be concluded from `out`, though work may be queued
//   behind it: an optimizer waits for the handles of all its buckets.
// - Every NCCL communicator is non-blocking, and one thread at a time is inside it (nccl_handle.h);
//   no thread is ever stuck in NCCL for good. Start may wait in a group's first calls, while NCCL
//   connects; a deadline or a failure ends that, too.
// - One deadline thread for all groups of the process; one failure ends them all (nccl_watch.h).
// - Which reductions NCCL carries out, and which are carried out here, on top of its transfers,
//   because NCCL would add f16 and bf16 in the type or drop NaNs: nccl_operations.h.
// - A group of one has no NCCL communicator, which would cost 512 MiB of device memory.
//
// Differences from host groups: pointers are device memory; `deterministic` reductions are refused
// with InvalidArgument (NCCL chooses the order of additions by size and topology: the same bits on
// every rank, and on every run with the same machines, sizes and version, but not one fixed order);
// Abort and failures end all groups of the process.
struct NcclGroupOptions {
  // Such as "world": for errors and the flight recorder.
  std::string name = "world";
  // What errors call the ranks, by rank, such as "slot 2"; empty: "rank 2".
  std::vector<std::string> names;
  // CUDA's ordinal of this rank's GPU. No two ranks may have the same GPU.
  int device = 0;
  // For making the group, and for its splits.
  absl::Duration timeout = absl::Minutes(2);
};

// A collective call over `host`, which may be used for other things before and after (the group
// splits off a host group for itself) and must outlive nothing. `watch` is this process's for the
// job. All ranks fail if one does.
//   Unavailable        no GPU or driver; a rank has gone
//   ResourceExhausted  not enough device memory
//   DeadlineExceeded   not made within the timeout
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(std::shared_ptr<NcclWatch> watch,
                                                                   Communicator& host,
                                                                   const NcclGroupOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
