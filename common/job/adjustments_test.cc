#include "common/job/adjustments.h"

#include <gtest/gtest.h>

#include <utility>

#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(AdjustmentsTest, TheLastDecisionUpToAClockHolds) {
  google::protobuf::RepeatedPtrField<v1::Adjustment> decided;
  for (const auto& [clock, factor] : {std::pair(5, 0.5), std::pair(9, 0.25)}) {
    v1::Adjustment& added = *decided.Add();
    added.set_clock(clock);
    added.set_rate_factor(factor);
    added.set_batch_size(clock == 5 ? 0 : 64);
  }
  const Adjustments adjustments(decided);
  EXPECT_EQ(adjustments.RateFactor(0), 1);
  EXPECT_EQ(adjustments.RateFactor(4), 1);
  EXPECT_EQ(adjustments.RateFactor(5), 0.5);
  EXPECT_EQ(adjustments.RateFactor(8), 0.5);
  EXPECT_EQ(adjustments.RateFactor(100), 0.25);
  EXPECT_EQ(adjustments.At(8).batch_size(), 0u);
  EXPECT_EQ(adjustments.At(9).batch_size(), 64u);
}

TEST(AdjustmentsTest, NothingDecidedIsAsSpecified) {
  EXPECT_EQ(Adjustments().RateFactor(7), 1);
  EXPECT_TRUE(Adjustments().all().empty());
}

TEST(AdjustmentsTest, JobsWithNothingToDecideDoNotAsk) {
  v1::JobSpec spec;
  EXPECT_FALSE(MayAdjust(spec, 100, Evaluated::kYes));
  spec.mutable_schedule()->mutable_plateau();
  EXPECT_TRUE(MayAdjust(spec, 100, Evaluated::kYes));
  EXPECT_FALSE(MayAdjust(spec, 100, Evaluated::kNo));
}

TEST(AdjustmentsTest, BatchesMayGrowAtAnInterval) {
  v1::JobSpec spec;
  spec.mutable_adaptive_batch()->set_max_batch_size(64);
  EXPECT_FALSE(MayAdjust(spec, 0, Evaluated::kYes));
  EXPECT_FALSE(MayAdjust(spec, 99, Evaluated::kYes));
  EXPECT_TRUE(MayAdjust(spec, 100, Evaluated::kNo));
  spec.mutable_adaptive_batch()->set_every_steps(7);
  EXPECT_TRUE(MayAdjust(spec, 14, Evaluated::kNo));
  EXPECT_FALSE(MayAdjust(spec, 100, Evaluated::kNo));
}

}  // namespace
}  // namespace muster
