#include "worker/collectives/transport/pipes/pipe_waiter.h"

#include <sys/eventfd.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/transport/descriptor.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/pipes/host_pipe.h"

namespace muster {
namespace {

// Over sockets: one to read from and one to write to, played by eventfds.
class FakePipe final : public HostPipe {
 public:
  absl::StatusOr<size_t> Write(absl::Span<const std::byte>) override { return 0; }
  absl::StatusOr<absl::Span<const std::byte>> Peek(size_t) override {
    return absl::Span<const std::byte>();
  }
  void Consume(size_t) override {}
  absl::StatusOr<size_t> Read(absl::Span<std::byte>) override { return 0; }
  absl::Status Flush() override { return absl::OkStatus(); }
  bool in_memory() const override { return false; }
  bool Moved(const PipeInterest&) const override { return false; }
  void Arm(const PipeInterest&, Sleep) override {}
  void Disarm() override {}
  void BeforeSleep() override {}
  int descriptor() const override { return reading.get(); }
  int write_descriptor() const override { return writing.get(); }
  int processor() const override { return -1; }
  absl::Status broken() const override { return absl::OkStatus(); }
  const char* description() const override { return "fake"; }

  Descriptor reading;
  Descriptor writing;
};

// Ready to be read from, but not to be written to.
Descriptor WithBytes() {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_EQ(eventfd_write(event.get(), std::numeric_limits<uint64_t>::max() - 1), 0);
  return event;
}

// The opposite.
Descriptor WithRoom() { return Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

class PipeWaiterTest : public testing::Test {
 protected:
  // Returns how long so many waits for this rank's one peer take.
  absl::Duration TimeOf(int waits, PipeInterest interest, absl::Duration timeout) {
    PipeWaiter::Options options;
    options.pipes = {nullptr, &pipe_};
    options.names = {"", "rank 1"};
    PipeWaiter waiter(options, bell_, health_);
    interest.peer = 1;
    const absl::Time start = absl::Now();
    for (int i = 0; i < waits; ++i) waiter.Wait(bell_.word(), {interest}, timeout);
    return absl::Now() - start;
  }

  Doorbell bell_ = Doorbell::Create().value();
  GroupHealth health_{bell_, 2};
  FakePipe pipe_;
};

TEST_F(PipeWaiterTest, ReadingIsAwaitedWhereTheNextByteComes) {
  pipe_.reading = WithBytes();
  pipe_.writing = WithRoom();
  EXPECT_LT(TimeOf(100, {.readable = true}, absl::Seconds(1)), absl::Seconds(50));
  // Not where the next byte goes.
  pipe_.reading = WithRoom();
  EXPECT_GE(TimeOf(1, {.readable = true}, absl::Milliseconds(50)), absl::Milliseconds(49));
  pipe_.writing = WithBytes();
  EXPECT_GE(TimeOf(1, {.readable = true}, absl::Milliseconds(50)), absl::Milliseconds(49));
}

// A rank that waits for room looks for itself every 10 ms.
TEST_F(PipeWaiterTest, WritingIsAwaitedWhereTheNextByteGoes) {
  pipe_.reading = WithBytes();
  pipe_.writing = WithRoom();
  EXPECT_LT(TimeOf(1000, {.writable = true}, absl::Seconds(1)), absl::Seconds(5));
  // Not where the next byte comes.
  pipe_.writing = WithBytes();
  EXPECT_GE(TimeOf(1, {.writable = true}, absl::Seconds(1)), absl::Milliseconds(9));
  pipe_.reading = WithRoom();
  EXPECT_GE(TimeOf(1, {.writable = true}, absl::Seconds(1)), absl::Milliseconds(9));
}

TEST_F(PipeWaiterTest, BothWaysEitherEndsTheWait) {
  constexpr PipeInterest kBoth = {.readable = true, .writable = true};
  pipe_.reading = WithBytes();
  pipe_.writing = WithBytes();
  EXPECT_LT(TimeOf(1000, kBoth, absl::Seconds(1)), absl::Seconds(5));
  pipe_.reading = WithRoom();
  pipe_.writing = WithRoom();
  EXPECT_LT(TimeOf(1000, kBoth, absl::Seconds(1)), absl::Seconds(5));
  pipe_.writing = WithBytes();
  EXPECT_GE(TimeOf(1, kBoth, absl::Seconds(1)), absl::Milliseconds(9));
}

}  // namespace
}  // namespace muster
