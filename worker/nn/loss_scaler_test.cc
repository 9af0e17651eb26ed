#include "worker/nn/loss_scaler.h"

#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(LossScalerTest, OnlyJobsInF16HaveOne) {
  v1::ComputeSpec compute;
  EXPECT_FALSE(LossScaler::ForJob(compute).has_value());
  compute.set_type(v1::ComputeSpec::BF16);
  EXPECT_FALSE(LossScaler::ForJob(compute).has_value());
  compute.set_type(v1::ComputeSpec::F16);
  ASSERT_TRUE(LossScaler::ForJob(compute).has_value());
  EXPECT_EQ(LossScaler::ForJob(compute)->scale(), LossScaler::kFirst);
  EXPECT_TRUE(LossScaler::IsFound(compute));
  compute.set_loss_scale(128);
  EXPECT_EQ(LossScaler::ForJob(compute)->scale(), 128);
  EXPECT_TRUE(LossScaler::ForJob(compute)->fixed());
  EXPECT_FALSE(LossScaler::IsFound(compute));
}

TEST(LossScalerTest, GrowsAfterAWindowWithoutOverflow) {
  LossScaler scaler(0, 3);
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_TRUE(scaler.Succeeded());
  EXPECT_EQ(scaler.scale(), 2 * LossScaler::kFirst);
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_FALSE(scaler.Succeeded());
  // The window begins again.
  EXPECT_TRUE(scaler.Overflowed());
  EXPECT_EQ(scaler.scale(), LossScaler::kFirst);
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_TRUE(scaler.Succeeded());
  EXPECT_EQ(scaler.overflows(), 1);
}

TEST(LossScalerTest, TheUsualWindow) {
  LossScaler scaler(0, 0);
  for (uint32_t i = 1; i < LossScaler::kUsualWindow; ++i) ASSERT_FALSE(scaler.Succeeded());
  EXPECT_TRUE(scaler.Succeeded());
}

TEST(LossScalerTest, EndsAtOneAndAtTheLargest) {
  LossScaler scaler(0, 1);
  for (float scale = LossScaler::kFirst; scale > 1; scale /= 2) {
    ASSERT_EQ(scaler.scale(), scale);
    ASSERT_TRUE(scaler.Overflowed());
  }
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.Overflowed()) << "what overflows without a scale has diverged";
  while (scaler.Succeeded()) {
  }
  EXPECT_EQ(scaler.scale(), LossScaler::kLargest);
}

TEST(LossScalerTest, GoesOnFromItsState) {
  LossScaler scaler(0, 3);
  scaler.Overflowed();
  scaler.Succeeded();
  scaler.Succeeded();
  LossScaler next(0, 3);
  next.Restore(scaler.state());
  EXPECT_EQ(next.scale(), LossScaler::kFirst / 2);
  EXPECT_TRUE(next.Succeeded());
  EXPECT_EQ(next.state(), (LossScale{.scale = LossScaler::kFirst, .steps = 0}));
  // With a shorter window.
  LossScaler hasty(0, 1);
  hasty.Restore(scaler.state());
  EXPECT_TRUE(hasty.Succeeded());
}

TEST(LossScalerTest, AFixedOneStays) {
  LossScaler scaler(256, 1);
  EXPECT_FALSE(scaler.Succeeded());
  EXPECT_EQ(scaler.scale(), 256);
  EXPECT_FALSE(scaler.Overflowed());
  EXPECT_EQ(scaler.scale(), 256);
}

}  // namespace
}  // namespace muster
