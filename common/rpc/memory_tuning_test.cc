#include "common/rpc/memory_tuning.h"

#include <malloc.h>

#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Sanitizers bring an allocator of their own, which knows no thresholds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSystemMalloc = false;
#else
constexpr bool kSystemMalloc = true;
#endif

TEST(MemoryTuningTest, MessageBuffersComeFromTheHeapAndStayThere) {
  if (!kSystemMalloc) GTEST_SKIP() << "not the system's malloc";
  KeepMessageMemory();
  const struct mallinfo2 before = mallinfo2();
  std::vector<void*> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(std::malloc(4 << 20));
  EXPECT_EQ(mallinfo2().hblkhd, before.hblkhd) << "a 4 MiB buffer got a mapping of its own";
  const size_t grown = mallinfo2().arena;
  EXPECT_GE(grown, before.arena);
  for (void* buffer : buffers) std::free(buffer);
  EXPECT_EQ(mallinfo2().arena, grown) << "freed buffers went back to the kernel";
}

}  // namespace
}  // namespace muster
