// Tests what is refused before anything is allocated.
#include "worker/device/memory/await_device.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/device/emulated_device_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

DeviceOptions Options(int64_t width, int64_t heads, DType type) {
  DeviceOptions options;
  options.shape.layers = 1;
  options.shape.width = width;
  options.shape.heads = options.shape.kv_heads = heads;
  options.shape.feed_forward = 16;
  options.shape.vocabulary = 11;
  options.shape.context = 5;
  options.compute.type = type;
  options.compute.sequences = 1;
  options.compute.length = 5;
  return options;
}

TEST(AwaitDeviceTest, RefusesWhatNoDeviceComputes) {
  const auto message = [](const DeviceOptions& options) {
    const absl::Status status = AwaitDevice(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(Options(514, 2, DType::kF32)), HasSubstr("257"));
  EXPECT_THAT(message(Options(32, 2, DType::kF64)), HasSubstr("f64"));
  DeviceOptions options = Options(32, 2, DType::kF32);
  options.compute.length = 6;
  EXPECT_THAT(message(options), HasSubstr("context of 5"));
  options = Options(32, 2, DType::kF32);
  options.compute.sequences = int64_t{1} << 40;
  EXPECT_THAT(message(options), HasSubstr("65535"));
}

TEST(AwaitDeviceTest, RefusesWhatNoDeviceHolds) {
  DeviceOptions options = Options(32, 2, DType::kF32);
  options.shape.vocabulary = int64_t{1} << 30;
  const absl::Status status = AwaitDevice(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MiB of device memory"));
}

// Tests on devices that offer less than sm_80 does.
class AwaitDeviceLimitsTest : public ::testing::Test {
 protected:
  void TearDown() override { SetEmulatedDevices({}); }
};

TEST_F(AwaitDeviceLimitsTest, HeadsThatTakeMoreSharedMemoryThanThereIs) {
  // The limit of sm_86, sm_89 and sm_120.
  SetEmulatedDevices({.shared_memory_per_block_optin = 99 << 10});
  const absl::Status f32 = AwaitDevice(Options(128, 1, DType::kF32));
  EXPECT_EQ(f32.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(f32.message()),
      AllOf(HasSubstr("in f32 with heads of 128 elements"), HasSubstr("emulated has 101376"),
            HasSubstr("narrower heads, or compute.type BF16 or F16")));
  EXPECT_TRUE(AwaitDevice(Options(128, 1, DType::kBf16)).ok());
  EXPECT_TRUE(AwaitDevice(Options(128, 2, DType::kF32)).ok());

  const absl::Status bf16 = AwaitDevice(Options(256, 1, DType::kBf16));
  EXPECT_EQ(bf16.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bf16.message()),
              AllOf(HasSubstr("in bf16 with heads of 256 elements"), Not(HasSubstr("F16"))));
}

TEST_F(AwaitDeviceLimitsTest, NormsThatTakeMoreSharedMemoryThanThereIs) {
  SetEmulatedDevices({.shared_memory_per_block_optin = 1000});
  const absl::Status refused = AwaitDevice(Options(128, 2, DType::kF32));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a norm of width 128"));
}

}  // namespace
}  // namespace muster
