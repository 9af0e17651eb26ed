#include "server/coordinator/adjust/batch_growth.h"

#include <optional>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/adjust/decide.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// A job of two data ranks with three micro-batches each, and batches of 12 at first.
class BatchGrowthTest : public testing::Test {
 protected:
  BatchGrowthTest() {
    *record_.mutable_spec() = SmallJob();
    record_.mutable_spec()->set_batch_size(12);
    record_.mutable_spec()->set_micro_batches(3);
    record_.mutable_spec()->mutable_adaptive_batch()->set_max_batch_size(100);
    record_.mutable_spec()->mutable_adaptive_batch()->set_every_steps(10);
  }

  // Returns the batch that is decided; 0: nothing is.
  uint32_t Decide(uint64_t clock, absl::optional<double> noise_scale) {
    const std::optional<v1::Adjustment> next =
        DecideAdjustment({.record = record_, .clock = clock, .noise_scale = noise_scale});
    if (!next.has_value()) return 0;
    EXPECT_EQ(next->clock(), clock);
    EXPECT_EQ(next->rate_factor(), 1);
    EXPECT_THAT(next->reason(), HasSubstr("the gradient noise scale is"));
    *record_.add_adjustments() = *next;
    return next->batch_size();
  }

  v1::JobRecord record_;
};

TEST_F(BatchGrowthTest, GrowsTowardsTheNoiseScale) {
  EXPECT_EQ(Decide(10, 20), 18u) << "a multiple of six";
  EXPECT_EQ(Decide(20, 20), 0u) << "there already";
  EXPECT_EQ(Decide(30, 10), 0u) << "never shrinks";
  EXPECT_EQ(Decide(40, 31), 30u);
}

TEST_F(BatchGrowthTest, AtMostDoublesUpToItsMost) {
  EXPECT_EQ(Decide(10, 1e9), 24u);
  EXPECT_EQ(Decide(20, 1e9), 48u);
  EXPECT_EQ(Decide(30, 1e9), 96u);
  EXPECT_EQ(Decide(40, 1e9), 0u) << "the next multiple is above 100";
}

TEST_F(BatchGrowthTest, GrowsAtItsIntervalIfTheScaleIsKnown) {
  EXPECT_EQ(Decide(11, 1e9), 0u);
  EXPECT_EQ(Decide(10, absl::nullopt), 0u);
  record_.mutable_spec()->clear_adaptive_batch();
  EXPECT_EQ(Decide(10, 1e9), 0u);
}

}  // namespace
}  // namespace muster
