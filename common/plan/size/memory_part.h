#ifndef MUSTER_COMMON_PLAN_SIZE_MEMORY_PART_H_
#define MUSTER_COMMON_PLAN_SIZE_MEMORY_PART_H_

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// One use of a worker's, a device's or the servers' memory.
struct MemoryPart {
  std::string name;
  uint64_t bytes = 0;
  // True of what counts in the process's resident set, but is not its own: another process's
  // memory, which this one maps if both are on one machine, and pages of a file, which the system
  // writes and drops as it needs.
  bool mapped = false;
  // True of weights, gradients and optimizer state, which ZeRO divides, without units in flight.
  bool model_state = false;
};

uint64_t SumOfParts(const std::vector<MemoryPart>& parts);
// Returns the sum of the parts that are model state.
uint64_t SumOfState(const std::vector<MemoryPart>& parts);

// One line per part that is not 0, the largest first, and their sum; lines begin with `indent`.
std::string MemoryTable(const std::vector<MemoryPart>& parts, const std::string& indent);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_MEMORY_PART_H_
