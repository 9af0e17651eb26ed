#include "common/device/device.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "common/device/arena_plan.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = OpenDevice(0);
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
    stream_ = DeviceStream::Create().value();
    other_ = DeviceStream::Create().value();
    memory_ = DeviceBuffer::Allocate(MemoryPlace::kDevice, 4 * kBytes).value();
    host_ = DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, 2 * kBytes).value();
    std::memset(host_.data(), 0, host_.bytes());
  }

  static constexpr size_t kBytes = 1 << 20;
  // Before the streams, which do what is left of their work when they go.
  DeviceBuffer memory_, host_;
  std::unique_ptr<DeviceStream> stream_, other_;
};

TEST_F(DeviceTest, CopiesThereAndBack) {
  for (size_t i = 0; i < kBytes; ++i) host_.data()[i] = static_cast<std::byte>(i * 7);
  stream_->CopyToDevice(memory_.data(), host_.data(), kBytes);
  stream_->CopyOnDevice(memory_.data() + kBytes, memory_.data(), kBytes);
  stream_->Fill(memory_.data() + kBytes + 1, 0x5a, 3);
  stream_->CopyToHost(host_.data() + kBytes, memory_.data() + kBytes, kBytes);
  ASSERT_TRUE(stream_->Synchronize().ok());
  for (size_t i = 0; i < kBytes; ++i) {
    const std::byte wanted = i >= 1 && i < 4 ? std::byte{0x5a} : static_cast<std::byte>(i * 7);
    ASSERT_EQ(host_.data()[kBytes + i], wanted) << i;
  }
}

TEST_F(DeviceTest, AnEventOrdersTwoStreams) {
  auto event = DeviceEvent::Create().value();
  auto back = DeviceEvent::Create().value();
  for (uint8_t round = 1; round < 20; ++round) {
    stream_->Fill(memory_.data(), round, kBytes);
    stream_->Record(*event);
    other_->Wait(*event);
    other_->CopyOnDevice(memory_.data() + kBytes, memory_.data(), kBytes);
    other_->Record(*back);
    stream_->Wait(*back);
    stream_->CopyToHost(host_.data(), memory_.data() + kBytes, kBytes);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(host_.data()[kBytes - 1], std::byte{round});
  }
  EXPECT_GE(back->MillisecondsSince(*event).value(), 0);
}

TEST_F(DeviceTest, AnEventNeverRecordedHoldsNobodyUp) {
  auto event = DeviceEvent::Create().value();
  stream_->Wait(*event);
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  auto other = DeviceEvent::Create().value();
  EXPECT_EQ(event->MillisecondsSince(*other).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(DeviceTest, AGraphRunsAgainOverTwoStreams) {
  auto fork = DeviceEvent::Create().value();
  auto join = DeviceEvent::Create().value();
  auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->CopyOnDevice(memory_.data() + kBytes, memory_.data(), kBytes);
    stream_->Record(*fork);
    other_->Wait(*fork);
    other_->CopyOnDevice(memory_.data() + 2 * kBytes, memory_.data() + kBytes, kBytes);
    other_->Record(*join);
    stream_->Wait(*join);
    stream_->CopyOnDevice(memory_.data() + 3 * kBytes, memory_.data() + 2 * kBytes, kBytes);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (uint8_t value : {3, 4}) {
    stream_->Fill(memory_.data(), value, kBytes);
    (*graph)->Launch(*stream_);
    stream_->CopyToHost(host_.data(), memory_.data() + 3 * kBytes, kBytes);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(host_.data()[17], std::byte{value});
  }
}

TEST_F(DeviceTest, KeepsItsFirstFailureAndDoesNothingMore) {
  stream_->Fill(memory_.data(), 2, kBytes);
  stream_->Fail(absl::OkStatus());
  EXPECT_TRUE(stream_->status().ok());
  stream_->Fail(absl::InternalError("first"));
  stream_->Fail(absl::InternalError("second"));
  std::memset(host_.data(), 1, kBytes);
  stream_->CopyToHost(host_.data(), memory_.data(), kBytes);
  EXPECT_EQ(stream_->Synchronize().message(), "first");
  EXPECT_EQ(host_.data()[0], std::byte{1});
  EXPECT_FALSE(DeviceGraph::Capture(*stream_, [] { return absl::OkStatus(); }).ok());
}

// What the host says is said once, when the graph is captured.
TEST_F(DeviceTest, AGraphKeepsTheHostsValuesOfItsCapture) {
  stream_->Fill(memory_.data(), 1, kBytes);
  uint8_t value = 2;
  int calls = 0;
  auto graph = DeviceGraph::Capture(*stream_, [&] {
    ++calls;
    stream_->Fill(memory_.data(), value, kBytes / 2);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto bytes = [&] {
    stream_->CopyToHost(host_.data(), memory_.data(), kBytes);
    EXPECT_TRUE(stream_->Synchronize().ok());
    return std::pair(std::to_integer<int>(host_.data()[0]),
                     std::to_integer<int>(host_.data()[kBytes - 1]));
  };
  EXPECT_EQ(bytes(), std::pair(1, 1)) << "a capture does nothing";
  value = 3;
  (*graph)->Launch(*stream_);
  EXPECT_EQ(bytes(), std::pair(2, 1));
  stream_->Fill(memory_.data(), 4, kBytes);
  (*graph)->Launch(*stream_);
  EXPECT_EQ(bytes(), std::pair(2, 4));
  EXPECT_EQ(calls, 1);
}

TEST_F(DeviceTest, AGraphReadsMemoryAtEachLaunch) {
  auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->CopyToDevice(memory_.data(), host_.data(), kBytes);
    stream_->CopyToHost(host_.data() + kBytes, memory_.data(), kBytes);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int value : {5, 6}) {
    std::memset(host_.data(), value, kBytes);
    (*graph)->Launch(*stream_);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(host_.data()[2 * kBytes - 1], std::byte(value));
  }
}

TEST_F(DeviceTest, ACaptureIsDividedWhereItsBodySaysSo) {
  auto graphs = DeviceGraph::CaptureParts(*stream_, [&](DeviceGraph::Divide divide) {
    stream_->Fill(memory_.data(), 3, kBytes);
    divide();
    // The second graph has no work.
    divide();
    stream_->CopyOnDevice(memory_.data() + kBytes, memory_.data(), kBytes);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_EQ(graphs->size(), 3);
  for (const uint8_t value : {5, 6}) {
    (*graphs)[0]->Launch(*stream_);
    (*graphs)[1]->Launch(*stream_);
    stream_->Fill(memory_.data(), value, kBytes);
    (*graphs)[2]->Launch(*stream_);
    stream_->CopyToHost(host_.data(), memory_.data() + kBytes, kBytes);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(host_.data()[17], std::byte{value});
  }
}

TEST_F(DeviceTest, APartOfACaptureThatIsRefusedRefusesAll) {
  const auto graphs = DeviceGraph::CaptureParts(*stream_, [&](DeviceGraph::Divide divide) {
    EXPECT_FALSE(stream_->Synchronize().ok());
    divide();
    stream_->Fill(memory_.data(), 3, kBytes);
    return absl::OkStatus();
  });
  EXPECT_EQ(graphs.status().code(), absl::StatusCode::kInternal) << graphs.status();
}

TEST_F(DeviceTest, RefusesWithinGraphsWhatDoesNotOnlyQueue) {
  auto before = DeviceEvent::Create().value();
  auto fork = DeviceEvent::Create().value();
  other_->Record(*before);
  const auto expect_refused = [&](const std::string& what,
                                  absl::FunctionRef<absl::Status(DeviceStream&)> body) {
    auto stream = DeviceStream::Create().value();
    const auto graph = DeviceGraph::Capture(*stream, [&] {
      stream->Fill(memory_.data(), 7, kBytes);
      return body(*stream);
    });
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInternal) << what << graph.status();
  };
  expect_refused("Synchronize: ", [](DeviceStream& stream) { return stream.Synchronize(); });
  expect_refused("status: ", [](DeviceStream& stream) { return stream.status(); });
  expect_refused("Allocate: ", [](DeviceStream&) {
    return DeviceBuffer::Allocate(MemoryPlace::kDevice, 1024).status();
  });
  expect_refused("Wait for an event from outside: ", [&](DeviceStream& stream) {
    stream.Wait(*before);
    return absl::OkStatus();
  });
  expect_refused("work that is not waited for: ", [&](DeviceStream& stream) {
    stream.Record(*fork);
    other_->Wait(*fork);
    other_->Fill(memory_.data() + kBytes, 7, kBytes);
    return absl::OkStatus();
  });
}

TEST_F(DeviceTest, AStreamOutlivesARefusedCapture) {
  const auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->Fill(memory_.data(), 7, kBytes);
    return DeviceBuffer::Allocate(MemoryPlace::kDevice, 1024).status();
  });
  ASSERT_FALSE(graph.ok());
  stream_->Fill(memory_.data(), 8, kBytes);
  stream_->CopyToHost(host_.data(), memory_.data(), kBytes);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(host_.data()[kBytes - 1], std::byte{8});
}

TEST(OpenDeviceTest, RefusesWhatIsNotThere) {
  const int devices = CountDevices().value_or(0);
  for (const int index : {-1, devices}) {
    EXPECT_EQ(DevicePropertiesOf(index).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(OpenDevice(index).status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST(ArenaPlanTest, LaysArraysOutAligned) {
  ArenaPlan plan;
  EXPECT_EQ(plan.Add(1), 0u);
  EXPECT_EQ(plan.Add(256), 256u);
  EXPECT_EQ(plan.Add(1000), 512u);
  EXPECT_EQ(plan.bytes(), 512u + 1024);
}

}  // namespace
}  // namespace muster
