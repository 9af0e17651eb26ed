#include "common/step/step_batches.h"

#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/adjustment.pb.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobSpec Ramp(uint32_t first, const std::vector<std::pair<uint64_t, uint32_t>>& changes) {
  v1::JobSpec spec;
  spec.set_batch_size(first);
  for (const auto& [step, size] : changes) {
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(size);
  }
  return spec;
}

TEST(StepBatchesTest, BatchesFollowOneAnother) {
  const StepBatches batches = BatchesOf(Ramp(4, {{2, 8}, {5, 2}}));
  EXPECT_EQ(batches.At(0).begin, 0);
  EXPECT_EQ(batches.At(1).end(), 8);
  EXPECT_EQ(batches.At(2).begin, 8);
  EXPECT_EQ(batches.At(2).size, 8);
  EXPECT_EQ(batches.At(4).end(), 32);
  EXPECT_EQ(batches.At(5).begin, 32);
  EXPECT_EQ(batches.At(5).size, 2);
  EXPECT_EQ(batches.At(105).begin, 232);
}

TEST(StepBatchesTest, FindsTheClockAfterExamples) {
  const StepBatches batches = BatchesOf(Ramp(4, {{2, 8}, {5, 2}}));
  for (int64_t examples = 0; examples <= 60; ++examples) {
    const int64_t clock = batches.ClockAfter(examples);
    EXPECT_GE(batches.At(clock).begin, examples);
    if (clock > 0) EXPECT_LT(batches.At(clock - 1).begin, examples);
  }
}

TEST(StepBatchesTest, TellsTheSizesOfBatchesToCome) {
  const StepBatches batches = BatchesOf(Ramp(4, {{2, 8}, {5, 3}}));
  const auto sizes = [&](int64_t clock) {
    const StepBatches::Sizes found = batches.SizesFrom(clock);
    return std::make_pair(found.smallest, found.largest);
  };
  EXPECT_EQ(sizes(0), std::make_pair(int64_t{3}, int64_t{8}));
  EXPECT_EQ(sizes(4), std::make_pair(int64_t{3}, int64_t{8}));
  EXPECT_EQ(sizes(5), std::make_pair(int64_t{3}, int64_t{3}));
}

TEST(StepBatchesTest, PositionsMakeTheSameBatches) {
  const v1::JobSpec spec = Ramp(4, {{2, 8}, {5, 2}});
  const StepBatches whole = BatchesOf(spec);
  EXPECT_THAT(whole.PositionsUpTo(0), IsEmpty());
  EXPECT_THAT(whole.PositionsUpTo(1), ElementsAre(DataPosition{1, 4}));
  EXPECT_THAT(whole.PositionsUpTo(2), ElementsAre(DataPosition{2, 8}));
  EXPECT_THAT(whole.PositionsUpTo(6),
              ElementsAre(DataPosition{2, 8}, DataPosition{5, 32}, DataPosition{6, 34}));
  for (int64_t at = 0; at < 8; ++at) {
    const StepBatches resumed = BatchesOf(spec, whole.PositionsUpTo(at));
    for (int64_t clock = 0; clock < 12; ++clock) {
      EXPECT_EQ(resumed.At(clock).begin, whole.At(clock).begin) << at << " " << clock;
      EXPECT_EQ(resumed.At(clock).size, whole.At(clock).size) << at << " " << clock;
    }
  }
}

// Jobs with ramps of their own resume one another at any clock.
TEST(StepBatchesTest, BatchesOfAnyHistoryFollowOneAnother) {
  std::mt19937 random(5);
  const auto below = [&](int most) { return static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 200; ++round) {
    std::vector<DataPosition> positions;
    std::vector<StepBatch> made;
    for (int job = 0; job < 4; ++job) {
      std::vector<std::pair<uint64_t, uint32_t>> changes;
      int64_t step = below(6);
      for (int64_t left = below(4); left > 0; --left) {
        step += 1 + below(5);
        changes.push_back({step, 1 + below(9)});
      }
      const StepBatches batches = BatchesOf(Ramp(1 + below(9), changes), positions);
      for (size_t clock = 0; clock < made.size(); ++clock) {
        ASSERT_EQ(batches.At(clock).begin, made[clock].begin);
        ASSERT_EQ(batches.At(clock).size, made[clock].size);
      }
      const int64_t end = static_cast<int64_t>(made.size()) + below(8);
      while (static_cast<int64_t>(made.size()) < end) {
        const StepBatch batch = batches.At(static_cast<int64_t>(made.size()));
        ASSERT_EQ(batch.begin, made.empty() ? 0 : made.back().end());
        made.push_back(batch);
      }
      positions = batches.PositionsUpTo(end);
    }
  }
}

v1::Adjustment Decided(uint64_t clock, uint32_t batch_size) {
  v1::Adjustment adjustment;
  adjustment.set_clock(clock);
  adjustment.set_batch_size(batch_size);
  return adjustment;
}

TEST(StepBatchesTest, WhatIsDecidedHoldsUpToTheNextDecision) {
  const v1::JobSpec spec = Ramp(4, {{5, 6}});
  const std::vector<v1::Adjustment> decided = {Decided(2, 10), Decided(7, 0)};
  const StepBatches batches = BatchesOf(spec, {}, decided);
  std::vector<int64_t> sizes;
  int64_t end = 0;
  for (int64_t clock = 0; clock < 9; ++clock) {
    EXPECT_EQ(batches.At(clock).begin, end);
    end = batches.At(clock).end();
    sizes.push_back(batches.At(clock).size);
  }
  EXPECT_THAT(sizes, ElementsAre(4, 4, 10, 10, 10, 10, 10, 6, 6));
  // A job that resumes goes on with the last decision.
  const StepBatches later = BatchesOf(spec, batches.PositionsUpTo(4), decided);
  for (int64_t clock = 0; clock < 9; ++clock) {
    EXPECT_EQ(later.At(clock).begin, batches.At(clock).begin);
    EXPECT_EQ(later.At(clock).size, batches.At(clock).size);
  }
}

TEST(StepBatchesTest, ExamplesThatWerePassedOverAreNoBatchs) {
  const StepBatches batches = BatchesOf(Ramp(4, {}), {{DataPosition{3, 12}, DataPosition{3, 32}}});
  EXPECT_EQ(batches.At(2).begin, 8);
  EXPECT_EQ(batches.At(2).size, 4);
  EXPECT_EQ(batches.At(3).begin, 32);
  EXPECT_EQ(batches.At(6).begin, 44);
  EXPECT_EQ(batches.ClockAfter(13), 3);
}

TEST(StepBatchesTest, PositionsThatOlderRecordsLackAreMadeUp) {
  const StepBatches batches({DataPosition{4, 10}}, 5);
  EXPECT_EQ(batches.At(0).begin, 0);
  EXPECT_EQ(batches.At(1).begin, 3);
  EXPECT_EQ(batches.At(2).begin, 5);
  EXPECT_EQ(batches.At(3).end(), 10);
  EXPECT_EQ(batches.At(6).begin, 20);
}

TEST(StepBatchesTest, DistantPositionsAreEndless) {
  const StepBatches batches(1000);
  EXPECT_EQ(batches.At(StepBatches::kEndless).begin, StepBatches::kEndless);
  EXPECT_EQ(batches.ClockAfter(StepBatches::kEndless), StepBatches::kEndless / 1000 + 1);
}

}  // namespace
}  // namespace muster
