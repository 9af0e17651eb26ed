#include "common/kernels/parallel_for.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "common/kernels/matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Ranges = std::set<std::pair<int64_t, int64_t>>;

class ParallelForTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetComputeThreads(GetParam()); }
  void TearDown() override { SetComputeThreads(1); }

  Ranges Run(int64_t n, int64_t grain) {
    std::mutex mutex;
    Ranges ranges;
    ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
      std::lock_guard<std::mutex> lock(mutex);
      EXPECT_TRUE(ranges.emplace(begin, end).second) << "[" << begin << ", " << end << ") twice";
    });
    return ranges;
  }
};

TEST_P(ParallelForTest, RangesDependOnNothingButTheirNumber) {
  EXPECT_EQ(Run(10, 4), (Ranges{{0, 4}, {4, 8}, {8, 10}}));
  EXPECT_EQ(Run(8, 4), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(Run(3, 4), (Ranges{{0, 3}}));
  EXPECT_EQ(Run(0, 4), Ranges{});
}

TEST_P(ParallelForTest, CoversEverythingOnceManyTimesOver) {
  constexpr int64_t kN = 1000;
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<int> count(kN);
    ParallelFor(kN, 7, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++count[i];
    });
    ASSERT_THAT(count, testing::Each(1));
  }
}

TEST_P(ParallelForTest, InsideABodyRunsOnItsThread) {
  std::atomic<int> elsewhere = 0;
  ParallelFor(16, 1, [&](int64_t, int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    ParallelFor(8, 1, [&](int64_t, int64_t) { elsewhere += std::this_thread::get_id() != here; });
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST_P(ParallelForTest, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      SetComputeThreads(GetParam());
      for (int repeat = 0; repeat < 50; ++repeat) {
        ParallelFor(100, 3, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 100);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelForTest, testing::Values(1, 2, 5));

// Two ranges that wait for each other end only on two threads.
TEST(ParallelForTest, UsesTheThreads) {
  SetComputeThreads(2);
  auto* barrier = new absl::Barrier(2);
  ParallelFor(2, 1, [&](int64_t, int64_t) {
    if (barrier->Block()) delete barrier;
  });
  SetComputeThreads(1);
}

}  // namespace
}  // namespace muster
