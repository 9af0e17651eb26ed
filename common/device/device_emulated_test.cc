// What the emulation refuses beyond what CUDA is sure to notice, and what it counts.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "common/device/device.h"
#include "common/device/emulated_device_counts.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr size_t kBytes = 512;

class EmulatedDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    stream_ = DeviceStream::Create().value();
    event_ = DeviceEvent::Create().value();
    memory_ = DeviceBuffer::Allocate(MemoryPlace::kDevice, kBytes).value();
    pinned_ = DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, kBytes).value();
    counted_ = CountsOfEmulatedDevice();
  }

  // Of a capture whose body looks away from what fails.
  absl::Status Captured(absl::FunctionRef<void(DeviceStream&)> body) {
    auto stream = DeviceStream::Create().value();
    return DeviceGraph::Capture(*stream,
                                [&] {
                                  body(*stream);
                                  return absl::OkStatus();
                                })
        .status();
  }

  // Before the stream, which does what is left of its work when it goes.
  DeviceBuffer memory_, pinned_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceEvent> event_;
  EmulatedDeviceCounts counted_;
};

TEST_F(EmulatedDeviceTest, ABodyThatIgnoresARefusalIsRefused) {
  std::vector<std::byte> host(kBytes);
  absl::optional<DeviceBuffer> given_up = DeviceBuffer::Allocate(MemoryPlace::kDevice, 1).value();
  const auto expect_refused = [&](const std::string& what,
                                  absl::FunctionRef<void(DeviceStream&)> body) {
    const absl::Status status = Captured(body);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << what << ": " << status;
  };
  expect_refused("allocation", [](DeviceStream&) {
    DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, 1).status().IgnoreError();
  });
  expect_refused("freeing", [&](DeviceStream&) { given_up.reset(); });
  expect_refused("waiting for a stream that is not captured",
                 [&](DeviceStream&) { stream_->Synchronize().IgnoreError(); });
  expect_refused("waiting for an event",
                 [&](DeviceStream&) { event_->Synchronize().IgnoreError(); });
  expect_refused("another capture",
                 [&](DeviceStream&) { Captured([](DeviceStream&) {}).IgnoreError(); });
  expect_refused("copy of memory that is not pinned", [&](DeviceStream& stream) {
    stream.CopyToDevice(memory_.data(), host.data(), kBytes);
  });
  expect_refused("reading back", [&](DeviceStream& stream) {
    stream.CopyToHost(host.data(), memory_.data(), kBytes);
  });
  expect_refused("copy that leaves pinned memory", [&](DeviceStream& stream) {
    stream.CopyToDevice(memory_.data(), pinned_.data() + 1, kBytes);
  });
  const absl::Status pinned = Captured([&](DeviceStream& stream) {
    stream.CopyToDevice(memory_.data(), pinned_.data() + 1, kBytes - 1);
    stream.CopyToHost(pinned_.data(), memory_.data(), kBytes);
  });
  EXPECT_TRUE(pinned.ok()) << pinned;
}

TEST_F(EmulatedDeviceTest, AnEventOfACaptureIsWaitedForWithinAlone) {
  ASSERT_TRUE(Captured([&](DeviceStream& stream) { stream.Record(*event_); }).ok());
  EXPECT_EQ(event_->Synchronize().code(), absl::StatusCode::kInternal);
  auto other = DeviceStream::Create().value();
  other->Wait(*event_);
  EXPECT_EQ(other->Synchronize().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Captured([&](DeviceStream& stream) { stream.Wait(*event_); }).code(),
            absl::StatusCode::kInternal);

  stream_->Record(*event_);
  EXPECT_TRUE(event_->Synchronize().ok());
}

// A stream of a graph runs no earlier than the graph's events make it, launch for launch, so that
// an event that is missing in a capture shows.
TEST_F(EmulatedDeviceTest, AGraphsStreamsRunAsLateAsTheirEventsAllow) {
  auto other = DeviceStream::Create().value();
  auto join = DeviceEvent::Create().value();
  auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->Record(*event_);
    other->Wait(*event_);
    other->Fill(memory_.data(), 2, 1);
    other->Record(*join);
    // Too early.
    stream_->CopyOnDevice(memory_.data() + 1, memory_.data(), 1);
    stream_->Wait(*join);
    stream_->CopyOnDevice(memory_.data() + 2, memory_.data(), 1);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int launch = 0; launch < 2; ++launch) {
    stream_->Fill(memory_.data(), 1, kBytes);
    (*graph)->Launch(*stream_);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(memory_.data()[1], std::byte{1});
    EXPECT_EQ(memory_.data()[2], std::byte{2});
  }
}

TEST_F(EmulatedDeviceTest, CountsCapturesLaunchesAndAllocations) {
  auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->Fill(memory_.data(), 1, kBytes);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int i = 0; i < 3; ++i) (*graph)->Launch(*stream_);
  ASSERT_FALSE(Captured([&](DeviceStream& stream) { stream.Synchronize().IgnoreError(); }).ok());
  EXPECT_EQ(CountsOfEmulatedDevice().captures - counted_.captures, 1);
  EXPECT_EQ(CountsOfEmulatedDevice().launches - counted_.launches, 3);
  EXPECT_EQ(CountsOfEmulatedDevice().allocations, counted_.allocations);
  ASSERT_TRUE(DeviceBuffer::Allocate(MemoryPlace::kDevice, 1).ok());
  ASSERT_TRUE(DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, 1).ok());
  ASSERT_TRUE(DeviceBuffer::Allocate(MemoryPlace::kDevice, 0).ok());
  EXPECT_EQ(CountsOfEmulatedDevice().allocations - counted_.allocations, 2);
}

TEST_F(EmulatedDeviceTest, CountsWhatMakesTheHostWait) {
  const auto waits = [&] {
    return CountsOfEmulatedDevice().synchronizations - counted_.synchronizations;
  };
  stream_->Fill(memory_.data(), 1, kBytes);
  stream_->CopyToHost(pinned_.data(), memory_.data(), kBytes);
  stream_->Record(*event_);
  stream_->Fill(memory_.data(), 2, kBytes);
  EXPECT_EQ(waits(), 0);
  ASSERT_TRUE(event_->Synchronize().ok());
  ASSERT_TRUE(event_->Synchronize().ok());
  EXPECT_EQ(waits(), 1) << "the second time nothing is left";
  ASSERT_TRUE(stream_->Synchronize().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(waits(), 2);
  std::vector<std::byte> host(kBytes);
  stream_->CopyToHost(host.data(), memory_.data(), kBytes);
  EXPECT_EQ(waits(), 3);
  ASSERT_TRUE(stream_->Synchronize().ok());
}

}  // namespace
}  // namespace muster
