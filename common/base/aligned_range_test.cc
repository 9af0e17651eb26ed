#include "common/base/aligned_range.h"

#include <sys/mman.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(AlignedRangeTest, BeginsAtAMultipleAndTakesWhatIsPutThere) {
  for (const size_t alignment : {size_t{4096}, size_t{2} << 20, size_t{1} << 30}) {
    for (const size_t bytes : {size_t{4096}, size_t{3} << 20}) {
      void* const range = ReserveAligned(bytes, alignment);
      ASSERT_NE(range, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(range) % alignment, 0u);
      void* const memory = mmap(range, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      ASSERT_EQ(memory, range);
      static_cast<char*>(memory)[bytes - 1] = 1;
      EXPECT_EQ(munmap(range, bytes), 0);
    }
  }
}

TEST(AlignedRangeTest, TooMuchIsNull) { EXPECT_EQ(ReserveAligned(size_t{1} << 60, 4096), nullptr); }

}  // namespace
}  // namespace muster
