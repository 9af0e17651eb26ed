#include "worker/runtime/process_usage.h"

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
