#include "worker/runtime/coordinator_client/process_usage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/machine/resident_peak.h"
#include "common/transport/shared_memory/shared_region.h"
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

TEST(ProcessUsageTest, MappedMemoryIsWhatOtherProcessesCreated) {
  constexpr size_t kBytes = 8 << 20;
  const absl::StatusOr<SharedRegion> own = SharedRegion::Create(kBytes);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(ReadProcessUsage().mapped_bytes, 0);
  // This looks like a region that process 1 created.
  const int other = memfd_create(absl::StrCat(SharedRegion::kName, 1).c_str(), MFD_CLOEXEC);
  ASSERT_GE(other, 0);
  ASSERT_EQ(ftruncate(other, kBytes), 0);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(ReadProcessUsage().mapped_bytes, 0);
  memset(mapped, 1, kBytes);
  EXPECT_EQ(ReadProcessUsage().mapped_bytes, kBytes);
  munmap(mapped, kBytes);
  close(other);
  EXPECT_EQ(ReadProcessUsage().mapped_bytes, 0);
}

// The peak of all that is mapped counts, and so does what was there before and comes after.
TEST(ProcessUsageTest, FileWindowsAreNoMemoryOfItsOwn) {
  constexpr size_t kBytes = 256 << 20;
  const auto touch = [] {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    memset(memory, 1, kBytes);
    munmap(memory, kBytes);
  };
  const auto own = [] {
    const ProcessUsage usage = ReadProcessUsage();
    return usage.peak_bytes - usage.mapped_bytes;
  };
  const uint64_t before = own();
  {
    const FileWindow window;
    const FileWindow another;
    touch();
  }
  const uint64_t peak = ReadProcessUsage().peak_bytes;
  EXPECT_GE(peak, kBytes);
  EXPECT_LT(own(), before + kBytes / 2);
  EXPECT_EQ(ReadProcessUsage().peak_bytes, peak) << "it stays the peak";
  touch();
  EXPECT_GE(own(), kBytes);
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
