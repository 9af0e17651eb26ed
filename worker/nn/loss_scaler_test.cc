#include "worker/nn/loss_scaler.h"

#include "common/base/model_limits.h"
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
  const auto succeed = [&](int steps) {
    for (int i = 0; i < steps; ++i) scaler.Succeeded();
    return scaler.scale() / LossScaler::kFirst;
  };
  EXPECT_EQ(succeed(2), 1);
  EXPECT_EQ(succeed(1), 2);
  EXPECT_EQ(succeed(2), 2);
  // The window begins again.
  EXPECT_TRUE(scaler.Overflowed());
  EXPECT_EQ(scaler.scale(), LossScaler::kFirst);
  EXPECT_EQ(succeed(2), 1);
  EXPECT_EQ(succeed(1), 2);
  EXPECT_EQ(scaler.overflows(), 1);
}

TEST(LossScalerTest, TheUsualWindow) {
  LossScaler scaler(0, 0);
  for (uint32_t i = 1; i < LossScaler::kUsualWindow; ++i) scaler.Succeeded();
  EXPECT_EQ(scaler.scale(), LossScaler::kFirst);
  scaler.Succeeded();
  EXPECT_EQ(scaler.scale(), 2 * LossScaler::kFirst);
}

TEST(LossScalerTest, EndsAtOneAndAtTheLargest) {
  LossScaler scaler(0, 1);
  for (float scale = LossScaler::kFirst; scale > 1; scale /= 2) {
    ASSERT_EQ(scaler.scale(), scale);
    ASSERT_TRUE(scaler.Overflowed());
  }
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.Overflowed()) << "what overflows without a scale has diverged";
  for (float scale = 1; scale < kMaxLossScale; scale *= 2) {
    ASSERT_EQ(scaler.scale(), scale);
    scaler.Succeeded();
  }
  scaler.Succeeded();
  EXPECT_EQ(scaler.scale(), kMaxLossScale);
}

TEST(LossScalerTest, GoesOnFromItsState) {
  LossScaler scaler(0, 3);
  scaler.Overflowed();
  scaler.Succeeded();
  scaler.Succeeded();
  LossScaler next(0, 3);
  next.Restore(scaler.state());
  EXPECT_EQ(next.scale(), LossScaler::kFirst / 2);
  next.Succeeded();
  EXPECT_EQ(next.state(), (LossScale{.scale = LossScaler::kFirst, .steps = 0}));
  // With a shorter window.
  LossScaler hasty(0, 1);
  hasty.Restore(scaler.state());
  hasty.Succeeded();
  EXPECT_EQ(hasty.scale(), LossScaler::kFirst);
}

TEST(LossScalerTest, AFixedOneStays) {
  LossScaler scaler(256, 1);
  scaler.Succeeded();
  EXPECT_EQ(scaler.scale(), 256);
  EXPECT_FALSE(scaler.Overflowed());
  EXPECT_EQ(scaler.scale(), 256);
}

}  // namespace
}  // namespace muster
