#include "server/coordinator/adjust/batch_scaling.h"

#include <cstdint>
#include <optional>
#include <string>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"

namespace muster {
namespace {

// A job of two data ranks with two micro-batches each, and batches of 12 for these.
class BatchScalingTest : public testing::Test {
 protected:
  BatchScalingTest() {
    v1::JobSpec& spec = *record_.mutable_spec();
    spec = AllReduceJob();
    spec.set_workers(2);
    spec.set_batch_size(12);
    spec.set_micro_batches(2);
    spec.set_scale_batch(true);
  }

  // Returns the batch that is decided; 0: it stays.
  uint32_t Decide(uint64_t clock, uint32_t data_ranks, uint64_t training_examples = 1000) {
    const std::optional<v1::Adjustment> next =
        DecideScaledBatch(record_, clock, data_ranks, training_examples);
    if (!next.has_value()) return 0;
    EXPECT_EQ(next->clock(), clock);
    EXPECT_EQ(next->skipped_examples(), 0u);
    *record_.add_adjustments() = *next;
    return next->batch_size();
  }

  v1::JobRecord record_;
};

TEST_F(BatchScalingTest, FollowsTheDataRanks) {
  EXPECT_EQ(Decide(0, 2), 0u) << "batch_size is for two";
  EXPECT_EQ(Decide(5, 3), 18u);
  EXPECT_EQ(Decide(9, 3), 0u);
  EXPECT_EQ(Decide(9, 1), 6u);
  EXPECT_EQ(Decide(12, 2), 12u);
  EXPECT_THAT(record_.adjustments(0).reason(),
              testing::HasSubstr("3 data ranks, and batch_size 12 is for 2"));
}

TEST_F(BatchScalingTest, TheLaterOfTwoRoundsAtOneClockHolds) {
  EXPECT_EQ(Decide(5, 4), 24u);
  EXPECT_EQ(Decide(5, 3), 18u);
  EXPECT_EQ(Decide(5, 3), 0u);
}

TEST_F(BatchScalingTest, KeepsTheRateThatWasDecided) {
  v1::Adjustment& rate = *record_.add_adjustments();
  rate.set_clock(4);
  rate.set_rate_factor(0.5);
  rate.set_skipped_examples(7);
  EXPECT_EQ(Decide(4, 3), 18u);
  EXPECT_EQ(record_.adjustments(1).rate_factor(), 0.5);
}

TEST_F(BatchScalingTest, HasNoMoreExamplesThanThereAre) {
  EXPECT_EQ(Decide(5, 4, 21), 16u) << "a multiple of eight micro-batches";
}

TEST_F(BatchScalingTest, StaysUnlessTheJobAsks) {
  record_.mutable_spec()->clear_scale_batch();
  EXPECT_EQ(Decide(5, 3), 0u);
}

}  // namespace
}  // namespace muster
