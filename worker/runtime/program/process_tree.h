#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROCESS_TREE_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROCESS_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// The processes that this process started, directly or through others, as /proc shows them.

// Makes this process the parent of all descendants whose own parent ends, so that none escapes.
void AdoptOrphans();

// Returns the descendants of this process that have not ended. May miss one that is just started.
std::vector<pid_t> FindDescendants();

// The usage of processes. Those that have ended meanwhile count as nothing.
struct TreeUsage {
  // Resident anonymous and shared memory. Pages of several processes count in each.
  uint64_t bytes = 0;
  double cpu_seconds = 0;
};
TreeUsage UsageOf(const std::vector<pid_t>& processes);

// Returns the processes' resident memory like UsageOf, with each page counted once; 0 if the system
// does not tell. Takes milliseconds for each GiB.
uint64_t ProportionalBytes(const std::vector<pid_t>& processes);

// Says what a process does, such as "is stopped" or "sleeps in do_nanosleep".
std::string DescribeState(pid_t process);

// Kills all descendants with SIGKILL, whatever group or session they are in, without reaping them.
// Blocks until none is left, at most some seconds: a process may hang in the kernel. REQUIRES:
// AdoptOrphans was called.
void KillDescendants();

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROCESS_TREE_H_
