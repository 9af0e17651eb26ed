#ifndef MUSTER_COMMON_PARTITION_MEMORY_BOUNDS_H_
#define MUSTER_COMMON_PARTITION_MEMORY_BOUNDS_H_

#include <cstddef>

#include "common/base/round_up.h"

namespace muster {

// Bounds of the memory through which a job's state goes. Workers and servers keep to them, and
// plans of memory count with them.

// Elements of a message of a tied tensor's gradient to the stage that pushes it: so many are added
// while the next ones are on their way.
inline constexpr size_t kTiedMessageElements = size_t{1} << 20;

// Bytes of a partition's contributions that a server keeps until others come, and that hold the
// sender's memory: a block of the usual size. Slots in step push one of a partition's blocks after
// another.
inline constexpr size_t kKeptGradientBytes = size_t{1} << 20;

// Bytes of offloaded optimizer state that are mapped at a time, if one block has no more.
inline constexpr size_t kOffloadWindowBytes = size_t{32} << 20;
inline constexpr size_t kOffloadPageBytes = 4096;
// Returns the bytes on disk of so many floats.
constexpr size_t OffloadedBytes(size_t floats) {
  return RoundUp(floats * sizeof(float), kOffloadPageBytes);
}

// Most bytes of a call in which ranks divide parameters anew, if these are enough for one element.
inline constexpr size_t kReshardingCallBytes = size_t{64} << 20;

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_MEMORY_BOUNDS_H_
