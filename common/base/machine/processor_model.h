#ifndef MUSTER_COMMON_BASE_MACHINE_PROCESSOR_MODEL_H_
#define MUSTER_COMMON_BASE_MACHINE_PROCESSOR_MODEL_H_

#include <string>

namespace muster {

// Returns the maker, family and model of this machine's processor, such as "GenuineIntel 6-143".
// Processors of one model have the same vector instructions and caches, by which kernels choose the
// order of sums.
std::string ProcessorModel();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_PROCESSOR_MODEL_H_
