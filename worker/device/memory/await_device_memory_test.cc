#include "worker/device/memory/await_device_memory.h"

#include <string>

#include "common/device/device_fault.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;
const DeviceMemoryNeed kNeed = {
    .needed = 60 * kMiB, .total = 80 * kMiB, .own = 10 * kMiB, .parts = "weights 2 MiB"};

// Time passes at once.
struct FakeWait {
  WaitFunction function() {
    return [this](absl::Duration duration) {
      waited += duration;
      return !stopped;
    };
  }

  absl::Duration waited;
  bool stopped = false;
};

TEST(AwaitDeviceMemoryTest, WaitsForWhatOthersGiveBack) {
  FakeWait wait;
  const auto free = [&]() -> absl::StatusOr<size_t> {
    return wait.waited < absl::Seconds(3) ? 20 * kMiB : kNeed.total;
  };
  EXPECT_EQ(AwaitDeviceMemory(kNeed, free, wait.function()), absl::OkStatus());
  EXPECT_GE(wait.waited, absl::Seconds(3));
  EXPECT_LT(wait.waited, absl::Seconds(4));
  EXPECT_EQ(AwaitDeviceMemory(kNeed, free, nullptr), absl::OkStatus());
}

TEST(AwaitDeviceMemoryTest, WhatOthersKeepIsForAnotherTaskToTryFor) {
  FakeWait wait;
  const auto free = []() -> absl::StatusOr<size_t> { return 20 * kMiB; };
  const absl::Status status = AwaitDeviceMemory(kNeed, free, wait.function());
  EXPECT_TRUE(IsDeviceFault(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("20 MiB of 80 MiB are free"));
  EXPECT_EQ(wait.waited, kDeviceMemoryPatience);
  EXPECT_TRUE(IsDeviceFault(AwaitDeviceMemory(kNeed, free, nullptr)));
  FakeWait stopped;
  stopped.stopped = true;
  EXPECT_TRUE(IsDeviceFault(AwaitDeviceMemory(kNeed, free, stopped.function())));
  EXPECT_LT(stopped.waited, absl::Seconds(1));
}

TEST(AwaitDeviceMemoryTest, WhatNoDeviceHasIsRefusedAtOnce) {
  FakeWait wait;
  DeviceMemoryNeed need = kNeed;
  need.needed = need.total + 1;
  const auto free = [&]() -> absl::StatusOr<size_t> { return need.total; };
  const absl::Status status = AwaitDeviceMemory(need, free, wait.function());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights 2 MiB"));
  EXPECT_EQ(wait.waited, absl::ZeroDuration());
}

// Nobody else is there, so that another try would find no more.
TEST(AwaitDeviceMemoryTest, WhatTheProcessItselfLeavesTooLittleOfIsRefusedAtOnce) {
  FakeWait wait;
  DeviceMemoryNeed need = kNeed;
  need.needed = need.total - 5 * kMiB;
  const auto free = [&]() -> absl::StatusOr<size_t> { return need.total - need.own; };
  const absl::Status status = AwaitDeviceMemory(need, free, wait.function());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL take up to 10 MiB"));
  EXPECT_EQ(wait.waited, absl::ZeroDuration());
  need.needed = need.total - need.own;
  EXPECT_EQ(AwaitDeviceMemory(need, free, wait.function()), absl::OkStatus());
}

TEST(AwaitDeviceMemoryTest, AFailureToAskIsReturned) {
  FakeWait wait;
  const auto free = []() -> absl::StatusOr<size_t> { return DeviceFaultError("gone"); };
  EXPECT_EQ(AwaitDeviceMemory(kNeed, free, wait.function()), DeviceFaultError("gone"));
}

}  // namespace
}  // namespace muster
