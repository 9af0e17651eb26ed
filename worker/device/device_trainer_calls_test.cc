// What the trainer asks of the device: graphs captured once and launched from then on, no memory
// after the first step, and no wait of the host within one.
#include <cstdint>
#include <memory>
#include <utility>

#include "common/device/emulated_device_counts.h"
#include "gtest/gtest.h"
#include "worker/device/cpu_reference_for_testing.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kVocabulary = 37;
constexpr int64_t kLength = 9;
constexpr int64_t kSequences = 3;

// What was counted since `before`.
EmulatedDeviceCounts Since(const EmulatedDeviceCounts& before) {
  const EmulatedDeviceCounts now = CountsOfEmulatedDevice();
  return {.captures = now.captures - before.captures,
          .launches = now.launches - before.launches,
          .allocations = now.allocations - before.allocations,
          .synchronizations = now.synchronizations - before.synchronizations};
}

class DeviceTrainerCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CpuReference reference("layers: 1 width: 32 heads: 2 context: 9 dropout: 0.1", kVocabulary, "");
    DeviceTrainerOptions options;
    options.shape = reference.shape();
    options.compute.type = DType::kBf16;
    options.compute.sequences = kSequences;
    options.compute.length = kLength;
    options.compute.workspace_bytes = size_t{1} << 22;
    auto trainer = DeviceTrainer::Create(options, nullptr);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
    ASSERT_TRUE(trainer_->WriteInitialValues(1).ok());
  }

  void Add(int64_t sequences, int64_t length) {
    const Batch batch = RandomSequences(sequences, length, kVocabulary, 1);
    ASSERT_TRUE(trainer_->AddMicroBatch(batch, 0, SeriesPosition::kMoreFollow).ok());
  }

  void EndStep() {
    const auto result = trainer_->EndStep(0.01f);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_FALSE(result->skipped);
  }

  std::unique_ptr<DeviceTrainer> trainer_;
};

TEST_F(DeviceTrainerCallsTest, GraphsAreCapturedOnceAndLaunchedFromThenOn) {
  EmulatedDeviceCounts before = CountsOfEmulatedDevice();
  ASSERT_TRUE(trainer_->WarmUp().ok());
  EXPECT_EQ(Since(before).captures, 1);
  EXPECT_EQ(Since(before).launches, 1);
  EXPECT_EQ(trainer_->extents_with_graphs(), 1);
  // In each step twice the largest micro-batch, whose graph there is, a shorter one between them,
  // and the update. What comes the first time is launched kernel by kernel, the second time it is
  // captured.
  const struct {
    int64_t captures;
    int64_t launches;
    size_t extents;
  } expected[] = {{0, 2, 1}, {2, 4, 2}, {0, 4, 2}, {0, 4, 2}};
  for (uint64_t clock = 0; clock < std::size(expected); ++clock) {
    before = CountsOfEmulatedDevice();
    ASSERT_TRUE(trainer_->BeginStep(clock).ok());
    Add(kSequences, kLength);
    Add(1, 5);
    Add(kSequences, kLength);
    EndStep();
    EXPECT_EQ(Since(before).captures, expected[clock].captures) << clock;
    EXPECT_EQ(Since(before).launches, expected[clock].launches) << clock;
    EXPECT_EQ(trainer_->extents_with_graphs(), expected[clock].extents) << clock;
  }
}

TEST_F(DeviceTrainerCallsTest, StepsAllocateNothingAndWaitAtTheirEnd) {
  EXPECT_GT(CountsOfEmulatedDevice().allocations, 0) << "by Create";
  ASSERT_TRUE(trainer_->WarmUp().ok());
  for (uint64_t clock = 0; clock < 4; ++clock) {
    EmulatedDeviceCounts before = CountsOfEmulatedDevice();
    ASSERT_TRUE(trainer_->BeginStep(clock).ok());
    Add(kSequences, kLength);
    Add(1, 5);
    Add(kSequences, kLength);
    EXPECT_EQ(Since(before).synchronizations, 0) << clock;
    EndStep();
    EXPECT_EQ(Since(before).synchronizations, 1) << clock;
    EXPECT_EQ(Since(before).allocations, 0) << clock;
  }
}

// The fifth micro-batch takes the place of the first, the sixth that of the second.
TEST_F(DeviceTrainerCallsTest, TheHostWaitsWhereItIsFourBatchesAhead) {
  ASSERT_TRUE(trainer_->BeginStep(0).ok());
  const EmulatedDeviceCounts before = CountsOfEmulatedDevice();
  const int64_t expected[] = {0, 0, 0, 0, 1, 2};
  for (const int64_t waits : expected) {
    Add(1, 5);
    EXPECT_EQ(Since(before).synchronizations, waits);
  }
  EXPECT_EQ(Since(before).allocations, 0);
}

}  // namespace
}  // namespace muster
