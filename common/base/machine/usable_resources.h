#ifndef MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_
#define MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_

#include <cstdint>
#include <string>

namespace muster {

// What the system lets this process use of the machine: less than there is where it is bound to
// some processors, or where it or a group around it has limits, as containers have.
struct UsableResources {
  // At least 1. Part of a processor counts as one.
  int processors = 1;
  uint64_t memory_bytes = 0;
};

// Asks the system. Limits are those of cgroup v2 (cpu.max, memory.max); v1's are not looked for.
// `root` is where /proc and /sys are found, for tests. Thread-safe.
UsableResources FindUsableResources(const std::string& root = "");

// The processors of FindUsableResources(), which is where a default number of threads comes from.
int UsableProcessors();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_USABLE_RESOURCES_H_
