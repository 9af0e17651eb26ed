#include "common/device/device.h"

#include <cstring>
#include <vector>

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
  std::unique_ptr<DeviceStream> stream_, other_;
  DeviceBuffer memory_, host_;
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

TEST_F(DeviceTest, CallsTheHostInOrder) {
  std::vector<int> seen;
  stream_->Fill(memory_.data(), 1, kBytes);
  stream_->CopyToHost(host_.data(), memory_.data(), kBytes);
  stream_->CallHost([&] { seen.push_back(std::to_integer<int>(host_.data()[kBytes - 1])); });
  stream_->CallHost([&] { seen.push_back(2); });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
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
  stream_->Fail(absl::OkStatus());
  EXPECT_TRUE(stream_->status().ok());
  stream_->Fail(absl::InternalError("first"));
  stream_->Fail(absl::InternalError("second"));
  bool called = false;
  stream_->CallHost([&] { called = true; });
  EXPECT_EQ(stream_->Synchronize().message(), "first");
  EXPECT_FALSE(called);
  EXPECT_FALSE(DeviceGraph::Capture(*stream_, [] { return absl::OkStatus(); }).ok());
}

TEST_F(DeviceTest, RefusesFunctionsOfTheHostWithinGraphs) {
  bool called = false;
  const auto graph = DeviceGraph::Capture(*stream_, [&] {
    stream_->CallHost([&] { called = true; });
    return stream_->status();
  });
  if (graph.ok()) (*graph)->Launch(*stream_);
  const absl::Status status = graph.ok() ? stream_->Synchronize() : graph.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_FALSE(called);
}

TEST(OpenDeviceTest, RefusesWhatIsNotThere) {
  EXPECT_EQ(OpenDevice(-1).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ArenaPlanTest, LaysArraysOutAlignedAndCountsTheMostInUse) {
  ArenaPlan plan;
  EXPECT_EQ(plan.Add(1), 0u);
  EXPECT_EQ(plan.Add(256), 256u);
  const size_t mark = plan.used();
  EXPECT_EQ(plan.Add(1000), 512u);
  plan.Rewind(mark);
  EXPECT_EQ(plan.Add(10), 512u);
  EXPECT_EQ(plan.bytes(), 512u + 1024);
}

}  // namespace
}  // namespace muster
