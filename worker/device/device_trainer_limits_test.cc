// What it refuses on devices that offer less than sm_80 does.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/device/emulated_device_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DeviceTrainerLimitsTest : public ::testing::Test {
 protected:
  void TearDown() override { SetEmulatedDevices({}); }

  static absl::Status Create(int64_t width, int64_t heads, DType type) {
    DeviceTrainerOptions options;
    options.shape.layers = 1;
    options.shape.width = width;
    options.shape.heads = options.shape.kv_heads = heads;
    options.shape.feed_forward = 16;
    options.shape.vocabulary = 11;
    options.shape.context = 5;
    options.compute.type = type;
    options.compute.sequences = 1;
    options.compute.length = 5;
    options.compute.workspace_bytes = size_t{1} << 20;
    return DeviceTrainer::Create(options, nullptr).status();
  }
};

TEST_F(DeviceTrainerLimitsTest, HeadsThatTakeMoreSharedMemoryThanThereIs) {
  // As sm_86, sm_89 and sm_120.
  SetEmulatedDevices({.shared_memory_per_block_optin = 99 << 10});
  const absl::Status f32 = Create(128, 1, DType::kF32);
  EXPECT_EQ(f32.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(f32.message()),
      AllOf(HasSubstr("in f32 with heads of 128 elements"), HasSubstr("emulated has 101376"),
            HasSubstr("narrower heads, or compute.type BF16 or F16")));
  EXPECT_TRUE(Create(128, 1, DType::kBf16).ok());
  EXPECT_TRUE(Create(128, 2, DType::kF32).ok());

  const absl::Status bf16 = Create(256, 1, DType::kBf16);
  EXPECT_EQ(bf16.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bf16.message()),
              AllOf(HasSubstr("in bf16 with heads of 256 elements"), Not(HasSubstr("F16"))));
}

TEST_F(DeviceTrainerLimitsTest, NormsThatTakeMoreSharedMemoryThanThereIs) {
  SetEmulatedDevices({.shared_memory_per_block_optin = 1000});
  const absl::Status refused = Create(128, 2, DType::kF32);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a norm of width 128"));
}

}  // namespace
}  // namespace muster
