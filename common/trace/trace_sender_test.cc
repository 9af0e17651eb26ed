#include "common/trace/trace_sender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/trace/trace_event.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_scope.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

constexpr int64_t kAhead = 1'000'000;

// A coordinator that keeps pieces. Its clock is kAhead of the process's, both of which stand still
// but for a microsecond with each look.
class Coordinator {
 public:
  absl::StatusOr<v1::TraceReply> Take(const v1::TracePiece& piece) {
    absl::MutexLock lock(&mutex_);
    if (failures_ > 0) {
      --failures_;
      return absl::UnavailableError("away");
    }
    if (piece.number() > 0) pieces_.push_back(piece);
    v1::TraceReply reply;
    reply.set_clock_ns(Now() + kAhead);
    reply.set_wanted(wanted_);
    reply.set_finish(finish_);
    return reply;
  }

  int64_t Now() { return now_ += 1'000; }

  void Fail(int times) {
    absl::MutexLock lock(&mutex_);
    failures_ = times;
  }
  void SetWanted(bool wanted) {
    absl::MutexLock lock(&mutex_);
    wanted_ = wanted;
  }
  void Finish() {
    absl::MutexLock lock(&mutex_);
    finish_ = true;
  }

  // Blocks until the last piece has come, and returns all.
  std::vector<v1::TracePiece> AwaitLast() {
    absl::MutexLock lock(&mutex_);
    const auto last = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !pieces_.empty() && pieces_.back().last();
    };
    mutex_.Await(absl::Condition(&last));
    return pieces_;
  }
  void AwaitPieces(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return pieces_.size() >= count;
    };
    mutex_.Await(absl::Condition(&there));
  }
  std::vector<v1::TracePiece> pieces() {
    absl::MutexLock lock(&mutex_);
    return pieces_;
  }

 private:
  std::atomic<int64_t> now_{0};
  absl::Mutex mutex_;
  std::vector<v1::TracePiece> pieces_ ABSL_GUARDED_BY(mutex_);
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;
  bool finish_ ABSL_GUARDED_BY(mutex_) = false;
};

v1::TraceOrder OrderOf(uint64_t trace, uint64_t first, uint64_t end) {
  v1::TraceOrder order;
  order.set_trace(trace);
  order.set_job_id("job");
  order.set_first_step(first);
  order.set_end_step(end);
  order.set_max_events(10'000);
  return order;
}

class TraceSenderTest : public testing::Test {
 protected:
  TraceSender::Options OptionsOf(TraceSender::Ends ends) {
    return {.ends = ends, .interval = absl::Milliseconds(1), .now = [this] {
              return coordinator_.Now();
            }};
  }
  TraceSender::Send Send() {
    return [this](const v1::TracePiece& piece) { return coordinator_.Take(piece); };
  }
  // Repeats step 1 until the sender waits for steps, then makes 2 and 3, of `events` events each.
  void MakeSteps(uint32_t events) {
    const TraceBinding bound(&recorder_, TraceTrack::kTrainer);
    while (recorder_.step() != 1) const TraceStep traced(1);
    for (uint64_t step = 2; step < 4; ++step) {
      const TraceStep traced(step);
      for (uint32_t i = 0; i < events; ++i) const TraceScope scope(ActionKind::kForward, i % 3);
    }
  }

  Coordinator coordinator_;
  TraceRecorder recorder_;
};

TEST_F(TraceSenderTest, ATaskSendsItsStepsAndIsDone) {
  TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWithItsSteps));
  coordinator_.Fail(3);
  sender.Take(OrderOf(1, 2, 4));
  sender.Take(OrderOf(1, 2, 4));
  MakeSteps(2500);
  const std::vector<v1::TracePiece> pieces = coordinator_.AwaitLast();
  int events = 0, steps = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const v1::TracePiece& piece = pieces[i];
    EXPECT_EQ(piece.number(), i + 1);
    EXPECT_EQ(piece.last(), i + 1 == pieces.size());
    EXPECT_LE(piece.events_size(), 2048);
    EXPECT_EQ(piece.dropped(), 0u);
    // A round trip is of two microseconds, answered in the middle.
    EXPECT_EQ(piece.clock_offset_ns(), kAhead);
    EXPECT_EQ(piece.clock_error_ns(), 1'000u);
    for (const v1::TraceEvent& event : piece.events()) {
      ASSERT_LT(event.name(), static_cast<uint32_t>(piece.names_size()));
      ASSERT_LT(event.track(), static_cast<uint32_t>(piece.tracks_size()));
      EXPECT_EQ(piece.tracks(event.track()).name(), "trainer");
      EXPECT_TRUE(event.step() == 2 || event.step() == 3) << event.step();
      steps += piece.names(event.name()).name() == "step";
      ++events;
    }
    EXPECT_LE(piece.names_size(), 4);
  }
  EXPECT_EQ(events, 2 * 2501);
  EXPECT_EQ(steps, 2);
  EXPECT_FALSE(recorder_.on());
}

TEST_F(TraceSenderTest, EventsBeyondTheMostAreCounted) {
  TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWithItsSteps));
  v1::TraceOrder order = OrderOf(1, 2, 3);
  order.set_max_events(100);
  sender.Take(order);
  MakeSteps(149);
  const std::vector<v1::TracePiece> pieces = coordinator_.AwaitLast();
  int events = 0;
  for (const v1::TracePiece& piece : pieces) events += piece.events_size();
  EXPECT_EQ(events, 100);
  EXPECT_EQ(pieces.back().dropped(), 50u);
}

TEST_F(TraceSenderTest, AServerIsDoneWhenItIsTold) {
  TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWhenTold));
  sender.Take(OrderOf(1, 5, 6));
  coordinator_.AwaitPieces(1);
  const TraceBinding bound(&recorder_, TraceTrack::kPartition, 3);
  { const TraceScope scope(ActionKind::kTakePush, 5, 8); }
  coordinator_.Finish();
  const std::vector<v1::TracePiece> pieces = coordinator_.AwaitLast();
  int events = 0;
  for (const v1::TracePiece& piece : pieces) events += piece.events_size();
  EXPECT_EQ(events, 1);
}

TEST_F(TraceSenderTest, ALaterOrderReplacesOneThatIsGone) {
  TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWhenTold));
  sender.Take(OrderOf(1, 5, 6));
  coordinator_.AwaitPieces(1);
  sender.Take(v1::TraceOrder());
  sender.Take(OrderOf(2, 7, 8));
  while (coordinator_.pieces().back().trace() != 2) coordinator_.AwaitPieces(2);
  EXPECT_EQ(coordinator_.pieces().back().number(), 1u);
}

TEST_F(TraceSenderTest, EndsWhenNothingIsWanted) {
  coordinator_.SetWanted(false);
  {
    TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWhenTold));
    sender.Take(OrderOf(1, 5, 6));
  }
  EXPECT_TRUE(coordinator_.pieces().empty());
  EXPECT_FALSE(recorder_.on());
}

TEST_F(TraceSenderTest, SendsWhatIsThereWhenTheProcessEnds) {
  {
    TraceSender sender(recorder_, Send(), OptionsOf(TraceSender::Ends::kWhenTold));
    sender.Take(OrderOf(1, 5, 6));
    coordinator_.AwaitPieces(1);
    const TraceBinding bound(&recorder_, TraceTrack::kPartition, 3);
    const TraceScope scope(ActionKind::kTakePush, 5, 8);
  }
  const std::vector<v1::TracePiece> pieces = coordinator_.pieces();
  EXPECT_TRUE(pieces.back().last());
  int events = 0;
  for (const v1::TracePiece& piece : pieces) events += piece.events_size();
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace muster
