#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_

#include "absl/time/time.h"

namespace muster {

// A stand-in for NCCL between threads of one process, on the streams of fake_cuda.h. Like NCCL it
// is non-blocking, does not compare the ranks' calls, and hangs where they differ, until the
// communicator is aborted. It refuses null, and a communicator whose state has not been seen to be
// success since its last call. ncclCommSplit returns success when the split has begun; the child is
// there once the state says so, or once an abort has ended the split.
//
// It ends the process on what would corrupt it with NCCL: any use of a communicator that was
// aborted or destroyed, and two threads inside one at once, except for an abort.

struct FakeNcclCounts {
  // Communicators made, those destroyed or aborted, aborts, and group calls that held any abort.
  int made = 0;
  int ended = 0;
  int aborts = 0;
  int aborting_groups = 0;
  // Calls of ncclCommSplit, calls of ncclCommGetAsyncError, and those of the latter that returned.
  int splits = 0;
  int queries = 0;
  int queries_done = 0;
};
FakeNcclCounts GetFakeNcclCounts();

// The behaviour of all communicators from now on.
struct FakeNcclBehaviour {
  // Time that ncclCommGetAsyncError takes.
  absl::Duration query_time;
  // True if splits hang until the communicator is aborted.
  bool splits_hang = false;
  // True if collective calls hang until the communicator is aborted.
  bool calls_hang = false;
};
void SetFakeNcclBehaviour(const FakeNcclBehaviour& behaviour);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
