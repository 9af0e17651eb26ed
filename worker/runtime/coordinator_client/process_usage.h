#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_

#include <cstdint>

namespace muster {

// What this process has used since it started.
struct ProcessUsage {
  // Of all its threads, in user mode and in the kernel.
  double cpu_seconds = 0;
  // The most memory that was resident at once; 0 where the system does not tell. Not taken from
  // getrusage, whose figure a process inherits from the one that started it.
  uint64_t peak_bytes = 0;
};

ProcessUsage ReadProcessUsage();

// The memory that is resident now and is no file's: its own, and what it shares with others. 0
// where the system does not tell.
uint64_t ReadAnonymousBytes();

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROCESS_USAGE_H_
