// Tests what steps ask of the device: graphs are captured once and launched from then on, memory is
// not allocated after the first step, and the host does not wait within a step.
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "common/device/emulated_device_counts.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kCallsVocabulary = 37;
constexpr int64_t kCallsLength = 9;
constexpr int64_t kCallsSequences = 3;

// Returns what was counted since `before`.
EmulatedDeviceCounts Since(const EmulatedDeviceCounts& before) {
  const EmulatedDeviceCounts now = CountsOfEmulatedDevice();
  return {.captures = now.captures - before.captures,
          .launches = now.launches - before.launches,
          .allocations = now.allocations - before.allocations,
          .synchronizations = now.synchronizations - before.synchronizations};
}

PlacedBatch Sequences(int64_t sequences, int64_t length) {
  return {RandomSequences(sequences, length, kCallsVocabulary, 1), 0};
}

class DeviceCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    v1::JobSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          model { transformer { layers: 1 width: 32 heads: 2 context: 9 dropout: 0.1 } }
          compute { device: CUDA type: BF16 }
          update { dense: ALL_REDUCE sparse: ALL_REDUCE }
          optimizer { name: "adamw" learning_rate: 0.01 }
          workers: 1
          batch_size: 3
        )pb",
        &spec));
    const EmulatedDeviceCounts before = CountsOfEmulatedDevice();
    auto rank = DeviceRank::Create(spec, kCallsVocabulary);
    ASSERT_TRUE(rank.ok()) << rank.status();
    created_ = Since(before);
    rank_ = *std::move(rank);
  }

  // Returns what a step asked for.
  EmulatedDeviceCounts Train(const std::vector<PlacedBatch>& micro_batches) {
    const EmulatedDeviceCounts before = CountsOfEmulatedDevice();
    const auto result = rank_->Train(micro_batches);
    const EmulatedDeviceCounts counts = Since(before);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->gradient_norm.has_value()) << "the step moved nothing";
    return counts;
  }

  EmulatedDeviceCounts created_;
  std::unique_ptr<DeviceRank> rank_;
};

TEST_F(DeviceCallsTest, GraphsAreCapturedOnceAndLaunchedFromThenOn) {
  EXPECT_EQ(created_.captures, 0);
  // Each step has the largest micro-batch twice, a shorter one between them, and the update. A call
  // is launched kernel by kernel the first time, which warming up has done for the largest
  // micro-batch, and is captured the second time.
  const struct {
    int64_t captures;
    int64_t launches;
  } expected[] = {{1, 2}, {2, 4}, {0, 4}, {0, 4}};
  for (size_t step = 0; step < std::size(expected); ++step) {
    const EmulatedDeviceCounts counts =
        Train({Sequences(kCallsSequences, kCallsLength), Sequences(1, 5),
               Sequences(kCallsSequences, kCallsLength)});
    EXPECT_EQ(counts.captures, expected[step].captures) << step;
    EXPECT_EQ(counts.launches, expected[step].launches) << step;
  }
}

TEST_F(DeviceCallsTest, EightExtentsHaveGraphs) {
  std::vector<PlacedBatch> micro_batches;
  for (int64_t length = 1; length <= kCallsLength; ++length) {
    micro_batches.push_back(Sequences(1, length));
  }
  EXPECT_EQ(Train(micro_batches).captures, 0);
  // Warming up has captured the eighth extent's graph; one capture is the update's.
  EXPECT_EQ(Train(micro_batches).captures, 7 + 1);
  EXPECT_EQ(Train(micro_batches).captures, 0);
}

TEST_F(DeviceCallsTest, StepsAllocateNothingAndWaitAtTheirEnd) {
  EXPECT_GT(created_.allocations, 0);
  for (int step = 0; step < 4; ++step) {
    const EmulatedDeviceCounts counts =
        Train({Sequences(kCallsSequences, kCallsLength), Sequences(1, 5),
               Sequences(kCallsSequences, kCallsLength)});
    EXPECT_EQ(counts.synchronizations, 1) << step;
    EXPECT_EQ(counts.allocations, 0) << step;
  }
}

// The fifth micro-batch takes the place of the first, the sixth that of the second.
TEST_F(DeviceCallsTest, TheHostWaitsWhereItIsFourBatchesAhead) {
  const std::pair<size_t, int64_t> expected[] = {{1, 0}, {4, 0}, {5, 1}, {6, 2}};
  for (const auto& [micro_batches, waits] : expected) {
    const EmulatedDeviceCounts counts =
        Train(std::vector<PlacedBatch>(micro_batches, Sequences(1, 5)));
    EXPECT_EQ(counts.synchronizations, waits + 1) << micro_batches;
    EXPECT_EQ(counts.allocations, 0);
  }
}

}  // namespace
}  // namespace muster
