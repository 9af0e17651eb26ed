#ifndef MUSTER_COMMON_BASE_ALIGNED_RANGE_H_
#define MUSTER_COMMON_BASE_ALIGNED_RANGE_H_

#include <cstddef>

namespace muster {

// Reserves a range of addresses that begins at a multiple of `alignment`, into which mmap with
// MAP_FIXED may put memory; the range itself takes no memory. munmap frees the range. Returns null
// if the system has no such range. REQUIRES: bytes is a positive multiple of the system's page
// size; alignment is a power of two and at least the page size. Thread-safe.
void* ReserveAligned(size_t bytes, size_t alignment);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_ALIGNED_RANGE_H_
