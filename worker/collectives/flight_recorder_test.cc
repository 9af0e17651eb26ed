#include "worker/collectives/flight_recorder.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(FlightRecorderTest, KeepsWhatACallWas) {
  FlightRecorder recorder("world");
  EXPECT_EQ(recorder.group(), "world");
  EXPECT_TRUE(recorder.Calls().empty());
  const absl::Time before = absl::Now();
  recorder.Begin(1, {.kind = Collective::kAllReduce,
                     .dtype = DType::kBf16,
                     .reduction = Reduction::kMax,
                     .count = 77,
                     .label = "bucket 3"});
  std::vector<RecordedCall> calls = recorder.Calls();
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].sequence, 1);
  EXPECT_EQ(calls[0].kind, Collective::kAllReduce);
  EXPECT_EQ(calls[0].dtype, DType::kBf16);
  EXPECT_EQ(calls[0].reduction, Reduction::kMax);
  EXPECT_EQ(calls[0].count, 77);
  EXPECT_EQ(calls[0].label, "bucket 3");
  EXPECT_GE(calls[0].started, before);
  EXPECT_EQ(calls[0].duration, absl::InfiniteDuration());
  EXPECT_TRUE(calls[0].status.ok());

  recorder.End(1, absl::UnavailableError("rank 2 has died"));
  calls = recorder.Calls();
  ASSERT_EQ(calls.size(), 1);
  EXPECT_GE(calls[0].duration, absl::ZeroDuration());
  EXPECT_LE(calls[0].duration, absl::Now() - before);
  EXPECT_EQ(calls[0].status, absl::UnavailableError("rank 2 has died"));
}

TEST(FlightRecorderTest, KeepsTheLastCallsOldestFirst) {
  FlightRecorder recorder("world");
  constexpr uint64_t kMade = FlightRecorder::kCalls + 345;
  for (uint64_t i = 1; i <= kMade; ++i) {
    recorder.Begin(i, {.count = i});
    if (i != kMade) recorder.End(i, absl::OkStatus());
  }
  // Long gone: must not end the call that has its place now.
  recorder.End(kMade - FlightRecorder::kCalls, absl::AbortedError("late"));
  const std::vector<RecordedCall> calls = recorder.Calls();
  ASSERT_EQ(calls.size(), FlightRecorder::kCalls);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].sequence, kMade - FlightRecorder::kCalls + 1 + i);
    EXPECT_EQ(calls[i].count, calls[i].sequence);
    EXPECT_EQ(calls[i].duration == absl::InfiniteDuration(), i + 1 == calls.size());
  }
}

TEST(FlightRecorderTest, LabelsAreCutBetweenCharacters) {
  FlightRecorder recorder("world");
  recorder.Begin(1, {.label = "12345678901234567890123"});
  recorder.Begin(2, {.label = "123456789012345678901234"});
  recorder.Begin(3, {.label = "1234567890123456789012\u00e4"});
  recorder.Begin(4, {.label = ""});
  const std::vector<RecordedCall> calls = recorder.Calls();
  EXPECT_EQ(calls[0].label, "12345678901234567890123");
  EXPECT_EQ(calls[1].label, "12345678901234567890123");
  EXPECT_EQ(calls[2].label, "1234567890123456789012");
  EXPECT_EQ(calls[3].label, "");
}

// A reader sees every call whole, while they are made.
TEST(FlightRecorderTest, IsReadWhileCallsAreMade) {
  FlightRecorder recorder("world");
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      uint64_t last = 0;
      for (const RecordedCall& call : recorder.Calls()) {
        EXPECT_GT(call.sequence, last);
        EXPECT_EQ(call.count, 2 * call.sequence);
        last = call.sequence;
      }
    }
  });
  for (uint64_t i = 1; i <= 20000; ++i) {
    recorder.Begin(i, {.count = 2 * i, .label = "step"});
    recorder.End(i, absl::OkStatus());
  }
  done = true;
  reader.join();
  EXPECT_EQ(recorder.Calls().back().sequence, 20000);
}

}  // namespace
}  // namespace muster
