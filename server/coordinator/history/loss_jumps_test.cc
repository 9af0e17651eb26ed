#include "server/coordinator/history/loss_jumps.h"

#include <gtest/gtest.h>

#include <optional>

namespace muster {
namespace {

// Adds steps of one loss, one by one, and returns the next step.
uint64_t AddSteps(LossJumps& jumps, uint64_t first, uint64_t steps, double loss) {
  for (uint64_t step = first; step < first + steps; ++step) {
    const SeriesPoint point = OneValue(step, loss, 0);
    jumps.Add({&point, 1});
  }
  return first + steps;
}

TEST(LossJumpsTest, ALossFarAboveTheLastHundredIsAJump) {
  LossJumps jumps(2);
  uint64_t step = AddSteps(jumps, 1, 200, 10);
  step = AddSteps(jumps, step, 100, 1);
  EXPECT_FALSE(jumps.Take().has_value());
  step = AddSteps(jumps, step, 1, 1.9);
  EXPECT_FALSE(jumps.Take().has_value());
  step = AddSteps(jumps, step, 3, 2.5);
  const std::optional<LossJump> jump = jumps.Take();
  ASSERT_TRUE(jump.has_value());
  EXPECT_EQ(jump->step, 302u) << "the first of them";
  EXPECT_EQ(jump->loss, 2.5);
  EXPECT_NEAR(jump->mean, 1.009, 1e-9);
  EXPECT_FALSE(jumps.Take().has_value()) << "it is told once";
  AddSteps(jumps, step, 1, 2.5);
  EXPECT_TRUE(jumps.Take().has_value()) << "a jump does not raise the mean";
}

TEST(LossJumpsTest, TheFirstStepsMayBeAnything) {
  LossJumps jumps(2);
  uint64_t step = AddSteps(jumps, 1, 9, 1);
  step = AddSteps(jumps, step, 1, 100);
  EXPECT_FALSE(jumps.Take().has_value());
}

TEST(LossJumpsTest, WithoutAFactorNothingIsAJump) {
  LossJumps jumps(0);
  AddSteps(jumps, AddSteps(jumps, 1, 50, 1), 1, 1e9);
  EXPECT_FALSE(jumps.Take().has_value());
}

TEST(LossJumpsTest, StepsReportedTogetherCountFromTheFirst) {
  LossJumps jumps(3);
  const uint64_t step = AddSteps(jumps, 1, 20, 1);
  SeriesPoint point = OneValue(step, 1.5, 0);
  point.last_step = step + 7;
  point.values = 8;
  point.min = 1;
  point.max = 4;
  point.mean = 1.5;
  jumps.Add({&point, 1});
  EXPECT_EQ(jumps.Take()->step, step);
}

TEST(LossJumpsTest, AJobThatGoesBackForgetsTheStepsBehind) {
  LossJumps jumps(2);
  AddSteps(jumps, AddSteps(jumps, 1, 40, 1), 1, 9);
  jumps.CutAfter(5);
  EXPECT_FALSE(jumps.Take().has_value());
  AddSteps(jumps, 6, 1, 9);
  EXPECT_FALSE(jumps.Take().has_value()) << "five steps are too few to tell";
}

}  // namespace
}  // namespace muster
