#ifndef MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_
#define MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_

#include <cstdint>
#include <string>

namespace muster {

// The part of the machine that the system lets this process use: less than there is if the process
// is bound to some processors, or if it or a group around it has limits, as containers have.
struct UsableResources {
  // At least 1. Part of a processor counts as one.
  int processors = 1;
  uint64_t memory_bytes = 0;
};

// Asks the system. Reads the limits of cgroup v2 (cpu.max, memory.max), not v1's. `root` is the
// folder that holds /proc and /sys, for tests. Thread-safe.
UsableResources FindUsableResources(const std::string& root = "");

// Returns the processors of FindUsableResources(), the default number of threads.
int UsableProcessors();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_
