#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_

namespace muster {

// A stand-in for NCCL between threads of one process, on the streams of fake_cuda.h. Like NCCL it
// is non-blocking, does not compare the ranks' calls, and hangs for ever where they differ, until
// the communicator is aborted. It ends the process on what would corrupt it with NCCL: any use of a
// communicator that was aborted or destroyed.

struct FakeNcclCounts {
  // Communicators made so far, aborts, and group calls that held any abort.
  int made = 0;
  int aborts = 0;
  int aborting_groups = 0;
};
FakeNcclCounts GetFakeNcclCounts();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_NCCL_H_
