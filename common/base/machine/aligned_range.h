#ifndef MUSTER_COMMON_BASE_MACHINE_ALIGNED_RANGE_H_
#define MUSTER_COMMON_BASE_MACHINE_ALIGNED_RANGE_H_

#include <cstddef>

namespace muster {

// Sets aside a range of addresses that begins at a multiple of `alignment`, for mmap with MAP_FIXED
// to put memory into; it takes none itself. munmap gives it back. Null: the system has no such
// range. REQUIRES: bytes is a positive multiple of the system's page, alignment a power of two and
// at least that page. Thread-safe.
void* ReserveAligned(size_t bytes, size_t alignment);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_ALIGNED_RANGE_H_
