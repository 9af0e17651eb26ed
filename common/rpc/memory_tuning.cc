#include "common/rpc/memory_tuning.h"

#include <malloc.h>

namespace muster {

void KeepMessageMemory() {
  // Buffers below 32 MiB come from the heap instead of fresh mappings (glibc takes no higher
  // threshold), the heap is not trimmed until 2 GiB lie free (the largest that fits mallopt's int),
  // and grows by 64 MiB at a time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 0x7fffffff);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace muster
