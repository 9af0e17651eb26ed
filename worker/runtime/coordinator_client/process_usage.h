#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>

namespace muster {

// Resources that this process has used since it started.
struct ProcessUsage {
  // CPU time of all threads, in user mode and in the kernel.
  double cpu_seconds = 0;
  // Most memory that was resident at once; 0 if the system does not tell.
  uint64_t peak_bytes = 0;
  // The part of the peak that is not the process's own: what other processes created and this one
  // maps (SharedRegion), as it is now, and what mapped files (FileWindow) have added to the peak.
  uint64_t mapped_bytes = 0;
};

ProcessUsage ReadProcessUsage();

// Returns the resident bytes of anonymous and shared memory, of this process or of another; 0 if
// the system does not tell.
uint64_t ReadAnonymousBytes();
uint64_t ReadAnonymousBytesOf(pid_t process);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_
