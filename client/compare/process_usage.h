#ifndef MUSTER_CLIENT_COMPARE_PROCESS_USAGE_H_
#define MUSTER_CLIENT_COMPARE_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Resources that a process has used since it started.
struct ChildUsage {
  pid_t pid = 0;
  double cpu_seconds = 0;
  // Most memory that the process ever held.
  uint64_t peak_bytes = 0;
};

// Returns the living children of `parent` whose program has that file name, in order of pid.
std::vector<ChildUsage> UsageOfChildren(pid_t parent, const std::string& program);

// Returns the number of processors that this process and its children may use.
int AvailableProcessors();

// Limits this process, and those it starts from now on, to the first `count` of the processors that
// it may use. Returns false if there are fewer, `count` is below 1, or the system refused.
bool LimitProcessors(int count);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_PROCESS_USAGE_H_
