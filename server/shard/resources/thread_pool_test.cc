#include "server/shard/resources/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/barrier.h"

namespace muster {
namespace {

TEST(ThreadPoolTest, RunsEverythingBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(3);
    for (int i = 0; i < 100; ++i) {
      pool.Add([&] {
        ++ran;
        pool.Add([&ran] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 200);
}

TEST(ThreadPoolTest, HasAllItsThreads) {
  ThreadPool pool(3);
  // Ends only if three tasks run at once.
  auto* barrier = new absl::Barrier(3);
  for (int i = 0; i < 3; ++i) {
    pool.Add([barrier] {
      if (barrier->Block()) delete barrier;
    });
  }
}

}  // namespace
}  // namespace muster
