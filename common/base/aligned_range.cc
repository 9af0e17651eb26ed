#include "common/base/aligned_range.h"

#include <sys/mman.h>

#include <cstdint>

#include "common/base/round_up.h"

namespace muster {

void* ReserveAligned(size_t bytes, size_t alignment) {
  // Enough that an aligned range lies within.
  const size_t mapped = bytes + alignment;
  void* const memory =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = RoundUp(begin, alignment);
  if (aligned > begin) munmap(memory, aligned - begin);
  const uintptr_t end = aligned + bytes;
  munmap(reinterpret_cast<void*>(end), begin + mapped - end);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace muster
