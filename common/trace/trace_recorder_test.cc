#include "common/trace/trace_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/trace/trace_event.h"
#include "common/trace/trace_scope.h"

namespace muster {
namespace {

TraceEvent EventOf(uint64_t step, uint32_t index) {
  TraceEvent event;
  event.step = step;
  event.index = index;
  event.kind = ActionKind::kForward;
  return event;
}

std::vector<TraceEvent> TakeAll(TraceRecorder& recorder) {
  std::vector<TraceEvent> events;
  recorder.Take(1 << 20, events);
  return events;
}

TEST(TraceRecorderTest, KeepsNothingWhileOff) {
  TraceRecorder recorder(8);
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  { const TraceScope scope(ActionKind::kForward, 1); }
  { const TraceStep step(3); }
  EXPECT_TRUE(TakeAll(recorder).empty());
  EXPECT_FALSE(recorder.on());
}

TEST(TraceRecorderTest, AThreadThatIsNotBoundRecordsNothing) {
  TraceRecorder recorder(8);
  recorder.StartNow("job", {.first = 0, .end = 1});
  { const TraceScope scope(ActionKind::kForward, 1); }
  {
    const TraceBinding bound(&recorder, TraceTrack::kPartition, 7);
    { const TraceScope scope(ActionKind::kTakePush, 0, 100); }
    const TraceBinding unbound(nullptr, TraceTrack::kTrainer);
    const TraceScope scope(ActionKind::kForward, 1);
  }
  const std::vector<TraceEvent> events = TakeAll(recorder);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, ActionKind::kTakePush);
  EXPECT_EQ(events[0].bytes, 100u);
  EXPECT_EQ(TrackNameOf(events[0]), "partition 7");
}

TEST(TraceRecorderTest, ATaskRecordsTheStepsAskedFor) {
  TraceRecorder recorder;
  recorder.Start("job", {.first = 2, .end = 4});
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  for (uint64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(recorder.finished(), step >= 4) << step;
    {
      const TraceStep traced(step);
      const TraceScope scope(ActionKind::kForward, 5);
    }
    // Between two steps that are asked for, such as a checkpoint.
    const TraceScope scope(ActionKind::kCheckpoint);
  }
  std::vector<std::string> names;
  for (const TraceEvent& event : TakeAll(recorder)) {
    names.push_back(NameOf(event) + " of " + std::to_string(event.step));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"forward 5 of 2", "step of 2", "checkpoint of 2",
                                             "forward 5 of 3", "step of 3"}));
}

TEST(TraceRecorderTest, ATaskBeyondTheStepsFinishesAtOnce) {
  TraceRecorder recorder;
  recorder.Start("job", {.first = 2, .end = 4});
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  { const TraceStep traced(9); }
  EXPECT_TRUE(recorder.finished());
  EXPECT_TRUE(TakeAll(recorder).empty());
}

TEST(TraceRecorderTest, EventsWithinAnEventAreOfItsStep) {
  TraceRecorder recorder;
  recorder.StartNow("job", {.first = 5, .end = 6});
  const TraceBinding bound(&recorder, TraceTrack::kPartition, 1);
  {
    const TraceScope outer(ActionKind::kTakeClose, 5, 0);
    const TraceScope inner(ActionKind::kOptimizer);
  }
  { const TraceScope after(ActionKind::kOptimizer); }  // Of no step.
  { const TraceScope other(ActionKind::kTakeClose, 6, 0); }
  const std::vector<TraceEvent> events = TakeAll(recorder);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, ActionKind::kOptimizer);
  EXPECT_EQ(events[0].step, 5u);
  EXPECT_EQ(events[1].kind, ActionKind::kTakeClose);
  EXPECT_LE(events[1].start_ns, events[0].start_ns);
  EXPECT_GE(events[1].start_ns + events[1].duration_ns, events[0].start_ns + events[0].duration_ns);
}

TEST(TraceRecorderTest, SpansEndOnAnyThread) {
  TraceRecorder recorder;
  recorder.StartNow("job", {.first = 0, .end = 9});
  TraceSpan span;
  {
    const TraceBinding bound(&recorder, TraceTrack::kTrainer);
    const TraceScope step(ActionKind::kTakeClose, 4, 0);
    span = TraceSpan(TracingHere(), TraceTrack::kRequests, ActionKind::kPull, 2);
  }
  std::thread([span] { span.End(77); }).join();
  TraceSpan().End(1);
  const std::vector<TraceEvent> events = TakeAll(recorder);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(NameOf(events[1]), "pull 2");
  EXPECT_EQ(events[1].step, 4u);
  EXPECT_EQ(events[1].bytes, 77u);
}

TEST(TraceRecorderTest, CallsHaveTheirLabelsAsNames) {
  TraceRecorder recorder;
  recorder.Start("job", {.first = 0, .end = 1});
  recorder.BeginStep(0);
  TraceCall(recorder, "bucket 3", 1000, 64);
  TraceCall(recorder, std::string(100, 'x'), 1000, 64);
  const std::vector<TraceEvent> events = TakeAll(recorder);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(NameOf(events[0]), "bucket 3");
  EXPECT_EQ(events[0].duration_ns, 1000);
  EXPECT_EQ(NameOf(events[1]), std::string(23, 'x'));
}

TEST(TraceRecorderTest, ReusesTheRingAndCountsWhatFindsNoRoom) {
  TraceRecorder recorder(4);
  recorder.StartNow("job", {.first = 0, .end = 1});
  uint32_t made = 0, taken = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) recorder.Record(EventOf(0, made++));
    for (const TraceEvent& event : TakeAll(recorder)) EXPECT_EQ(event.index, taken++);
  }
  EXPECT_EQ(taken, 15u);
  EXPECT_EQ(recorder.dropped(), 0u);
  for (int i = 0; i < 6; ++i) recorder.Record(EventOf(0, made++));
  EXPECT_EQ(recorder.dropped(), 2u);
  EXPECT_EQ(TakeAll(recorder).size(), 4u);
  // A later trace begins without what the one before has left.
  recorder.Record(EventOf(0, made++));
  recorder.StartNow("job", {.first = 0, .end = 1});
  EXPECT_EQ(recorder.dropped(), 0u);
  EXPECT_TRUE(TakeAll(recorder).empty());
  recorder.Record(EventOf(0, 99));
  EXPECT_EQ(TakeAll(recorder).size(), 1u);
}

TEST(TraceRecorderTest, ManyThreadsLoseNothingThatIsNotCounted) {
  constexpr uint32_t kThreads = 4, kEvents = 20'000;
  TraceRecorder recorder(256);
  recorder.StartNow("job", {.first = 0, .end = kThreads});
  std::atomic<uint32_t> done = 0;
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < kEvents; ++i) recorder.Record(EventOf(thread, i));
      ++done;
    });
  }
  std::vector<TraceEvent> events;
  while (done < kThreads) recorder.Take(100, events);
  for (std::thread& thread : threads) thread.join();
  recorder.Take(1000, events);
  EXPECT_EQ(events.size() + recorder.dropped(), uint64_t{kThreads} * kEvents);
  std::vector<int64_t> last(kThreads, -1);
  for (const TraceEvent& event : events) {
    EXPECT_GT(int64_t{event.index}, last[event.step]);
    last[event.step] = event.index;
  }
}

TEST(TraceRecorderTest, KnowsWhichJobItRecords) {
  TraceRecorder recorder;
  EXPECT_FALSE(recorder.Records("job"));
  recorder.StartNow("job", {.first = 0, .end = 1});
  EXPECT_TRUE(recorder.Records("job"));
  EXPECT_FALSE(recorder.Records("other"));
  recorder.Stop();
  EXPECT_FALSE(recorder.Records("job"));
}

}  // namespace
}  // namespace muster
