#include "common/daemon/daemon.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/synchronization/internal/per_thread_sem.h"
#include "common/base/machine/usable_resources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(AdvertisedAddressTest, IsTheOneListenedOnUnlessThatStandsForAll) {
  EXPECT_EQ(AdvertisedAddress("", "127.0.0.1:7"), "127.0.0.1:7");
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  EXPECT_EQ(AdvertisedAddress("", "0.0.0.0:7"), std::string(name) + ":7");
  EXPECT_EQ(AdvertisedAddress("", "[::]:7"), std::string(name) + ":7");
}

TEST(AdvertisedAddressTest, IsWhatTheUserSays) {
  EXPECT_EQ(AdvertisedAddress("host-a:9", "0.0.0.0:7"), "host-a:9");
  EXPECT_EQ(AdvertisedAddress("host-a:0", "0.0.0.0:7"), "host-a:7");
}

TEST(RandomBitsTest, Differ) { EXPECT_NE(RandomBits(), RandomBits()); }

TEST(SteadyWaitsTest, ArePartOfEveryProgramThatDependsOnThis) {
  Dl_info home = {};
  ASSERT_NE(
      dladdr(reinterpret_cast<void*>(&ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)), &home),
      0);
  EXPECT_THAT(home.dli_fname, testing::EndsWith("common/daemon/tests"))
      << "Abseil's own waits hang on the time of day; see common/base/steady_waits.cc";
}

TEST(IgnoreFileSignalsTest, ABrokenPipeIsAnError) {
  IgnoreFileSignals();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(RaiseDescriptorLimitTest, TakesAllThatTheSystemAllows) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t most = std::min<rlim_t>(limit.rlim_max, 1 << 20);
  limit.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  RaiseDescriptorLimit();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, most);
}

TEST(ExitWithinTest, EndsWhatHangs) {
  const auto hang = [] {
    ExitWithin(absl::Milliseconds(1), 7);
    while (true) pause();
  };
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(hang(), testing::ExitedWithCode(7), "");
}

TEST(IgnoreFileSignalsTest, AFileThatMayNotGrowIsAnError) {
  IgnoreFileSignals();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const int file = memfd_create("limited", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(file, 8192), -1);
  EXPECT_EQ(errno, EFBIG);
  close(file);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(DaemonLogTest, ShowsNothingThatSteersATerminal) {
  testing::internal::CaptureStderr();
  DaemonLog("program", "file \x1b[2J\ngr\xf6sse");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("program: file \\x1b[2J\\ngr\\xf6sse\n"), std::string::npos) << line;
}

TEST(DefaultMemoryTest, IsMostButNotAll) {
  const uint64_t all = FindUsableResources().memory_bytes;
  EXPECT_GT(DefaultMemoryBytes(), all / 2);
  EXPECT_LT(DefaultMemoryBytes(), all);
}

}  // namespace
}  // namespace muster
