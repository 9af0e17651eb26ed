#include "worker/collectives/transport/pipes/doorbell.h"

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

Doorbell Neighbours(const Doorbell& bell) {
  return Doorbell::Map(Descriptor(fcntl(bell.page_descriptor(), F_DUPFD_CLOEXEC, 0)),
                       Descriptor(fcntl(bell.event_descriptor(), F_DUPFD_CLOEXEC, 0)))
      .value();
}

TEST(DoorbellTest, ARingEndsASleepUnderWayOrToCome) {
  Doorbell own = Doorbell::Create().value();
  Doorbell neighbours = Neighbours(own);
  for (int round = 0; round < 200; ++round) {
    const uint32_t word = own.word();
    std::thread ringing([&] { neighbours.Ring(static_cast<uint32_t>(Sleep::kFutex)); });
    const absl::Time start = absl::Now();
    while (own.word() == word) own.SleepOnFutex(word, absl::Seconds(20));
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    ringing.join();
  }
}

TEST(DoorbellTest, ASleepEndsWithItsTimeout) {
  Doorbell bell = Doorbell::Create().value();
  const absl::Time start = absl::Now();
  bell.SleepOnFutex(bell.word(), absl::Milliseconds(20));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
  bell.SleepOnFutex(bell.word(), absl::Milliseconds(-5));
}

TEST(DoorbellTest, WhoPollsIsRungByTheEvent) {
  Doorbell own = Doorbell::Create().value();
  Doorbell neighbours = Neighbours(own);
  pollfd descriptor = {own.event_descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&descriptor, 1, 0), 0);
  neighbours.Ring(static_cast<uint32_t>(Sleep::kPoll));
  EXPECT_EQ(poll(&descriptor, 1, 0), 1);
  own.DrainEvent();
  EXPECT_EQ(poll(&descriptor, 1, 0), 0);
}

TEST(DoorbellTest, AStateIsNeverSeenInPieces) {
  Doorbell own = Doorbell::Create().value();
  const Doorbell neighbours = Neighbours(own);
  std::atomic<bool> done = false;
  std::thread publishing([&] {
    for (uint64_t i = 1; i <= 200'000; ++i) {
      CallState state;
      state.sequence = state.count = i;
      state.kind = state.dtype = static_cast<uint32_t>(i);
      own.Publish(state);
    }
    done = true;
  });
  uint64_t last = 0;
  while (!done) {
    const CallState state = neighbours.Published();
    ASSERT_EQ(state.sequence, state.count);
    ASSERT_EQ(state.kind, static_cast<uint32_t>(state.sequence));
    ASSERT_EQ(state.dtype, state.kind);
    // An empty one: it changed at every look.
    if (state.sequence != 0) {
      ASSERT_GE(state.sequence, last);
      last = state.sequence;
    }
  }
  publishing.join();
  EXPECT_EQ(neighbours.Published().sequence, 200'000u);
}

TEST(DoorbellTest, ThePeerSeesWhereTheRankRuns) {
  Doorbell own = Doorbell::Create().value();
  const Doorbell neighbours = Neighbours(own);
  EXPECT_EQ(neighbours.processor(), -1);
  for (const int processor : {0, 7, 7, 191}) {
    own.NoteProcessor(processor);
    EXPECT_EQ(neighbours.processor(), processor);
  }
}

}  // namespace
}  // namespace muster
