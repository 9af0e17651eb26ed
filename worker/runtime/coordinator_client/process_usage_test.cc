#include "worker/runtime/coordinator_client/process_usage.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ProcessUsageTest, PeakCoversMemoryThatWasTouchedAndStays) {
  constexpr size_t kBytes = 64 << 20;
  const uint64_t before = ReadProcessUsage().peak_bytes;
  EXPECT_GT(before, 0u);
  { std::vector<char> touched(kBytes, 1); }
  const uint64_t after = ReadProcessUsage().peak_bytes;
  EXPECT_GE(after, kBytes);
#if !defined(__SANITIZE_THREAD__)  // Which keeps four bytes for each.
  EXPECT_LT(after, before + 4 * kBytes);
#endif
}

TEST(ProcessUsageTest, AnonymousMemoryIsWhatIsThereNow) {
  constexpr size_t kBytes = 64 << 20;
  const uint64_t before = ReadAnonymousBytes();
  EXPECT_GT(before, 0u);
  {
    const std::vector<char> touched(kBytes, 1);
    EXPECT_GE(ReadAnonymousBytes(), before + kBytes / 2);
  }
  // Shared memory counts as well.
  void* const shared =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const uint64_t untouched = ReadAnonymousBytes();
  memset(shared, 1, kBytes);
  EXPECT_GE(ReadAnonymousBytes(), untouched + kBytes / 2);
  munmap(shared, kBytes);
}

TEST(ProcessUsageTest, ProcessorTimeGrowsWithWork) {
  const double before = ReadProcessUsage().cpu_seconds;
  volatile double sum = 0;
  while (ReadProcessUsage().cpu_seconds < before + 0.01) {
    for (int i = 0; i < 100000; ++i) sum = sum + i;
  }
  EXPECT_GE(ReadProcessUsage().cpu_seconds, before + 0.01);
}

}  // namespace
}  // namespace muster
