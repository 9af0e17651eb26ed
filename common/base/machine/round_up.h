#ifndef MUSTER_COMMON_BASE_MACHINE_ROUND_UP_H_
#define MUSTER_COMMON_BASE_MACHINE_ROUND_UP_H_

#include <cstddef>

namespace muster {

// The least multiple of `unit` that is not below `bytes`. REQUIRES: unit > 0, and that it can be
// said in a size_t.
constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_ROUND_UP_H_
