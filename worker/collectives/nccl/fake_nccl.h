#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_

#include "absl/time/time.h"

namespace muster {

// A stand-in for NCCL between threads of one process, on the streams of fake_cuda.h. Like NCCL it
// is non-blocking, does not compare the ranks' calls, and hangs for ever where they differ, until
// the communicator is aborted. It refuses a communicator whose state was not yet seen to be success
// since its last call, and null; ncclCommSplit returns success when it has begun, and the child is
// there no earlier than that state says so, or, of a split that an abort ended, with that abort.
//
// It ends the process on what would corrupt it with NCCL: any use of a communicator that was
// aborted or destroyed, and two threads inside one at once, but for an abort.

struct FakeNcclCounts {
  // Communicators made so far, those that were destroyed or aborted, aborts, and group calls that
  // held any abort.
  int made = 0;
  int ended = 0;
  int aborts = 0;
  int aborting_groups = 0;
  // Calls of ncclCommSplit; of ncclCommGetAsyncError, and those that returned.
  int splits = 0;
  int queries = 0;
  int queries_done = 0;
};
FakeNcclCounts GetFakeNcclCounts();

// How all communicators behave from now on.
struct FakeNcclBehaviour {
  // How long ncclCommGetAsyncError takes.
  absl::Duration query_time;
  // Splits never come to their end, until the communicator is aborted.
  bool splits_hang = false;
  // Collective calls do not return, until the communicator is aborted.
  bool calls_hang = false;
};
void SetFakeNcclBehaviour(const FakeNcclBehaviour& behaviour);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
