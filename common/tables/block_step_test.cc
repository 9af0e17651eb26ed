#include "common/tables/block_step.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::Each;

TEST(BlockStepTest, SignsMoveElementsWithoutOptimizerAndState) {
  v1::OptimizerSpec spec;
  spec.set_name("adamw");
  spec.set_learning_rate(0.5);
  spec.set_weight_decay(0.5);
  const auto optimizer = CreateOptimizer(spec, Granularity::kElements).value();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const std::vector<float> gradient = {3e30f, -kLeast, 0, -0.0f, -7, kInfinity, NAN};
  std::vector<float> weights(gradient.size(), 1), state(2 * gradient.size(), 5);
  // The scale alone would make the second gradient 0, and the limit all.
  const OptimizerStep step = {
      .learning_rate = 0.5, .step = 3, .gradient_scale = 1e-3f, .clip_value = 0};
  StepBlock({.sign_rate = 0.001f}, *optimizer, step, gradient, absl::MakeSpan(weights),
            absl::MakeSpan(state));
  const float down = 1 - 0.001f, up = 1 + 0.001f;
  const std::vector<float> expected = {down, up, 1, 1, up, down};
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.end() - 1), expected);
  EXPECT_TRUE(std::isnan(weights.back()));
  EXPECT_THAT(state, Each(5));
}

TEST(BlockStepTest, OthersDecayIfTheirBlockDoes) {
  v1::OptimizerSpec spec;
  spec.set_name("sgd");
  spec.set_learning_rate(0.5);
  spec.set_weight_decay(0.5);
  const auto optimizer = CreateOptimizer(spec, Granularity::kElements).value();
  for (const bool decays : {true, false}) {
    std::vector<float> weights = {4};
    StepBlock({.weight_decay = decays}, *optimizer, {.learning_rate = 0.5}, {1.0f},
              absl::MakeSpan(weights), {});
    EXPECT_EQ(weights[0], decays ? 2.5f : 3.5f);
  }
}

TEST(BlockStepTest, GroupsHaveTheirRateAndDecay) {
  v1::OptimizerSpec spec;
  spec.set_name("sgd");
  spec.set_learning_rate(0.5);
  spec.set_weight_decay(0.5);
  const auto optimizer = CreateOptimizer(spec, Granularity::kElements).value();
  std::vector<float> weights = {4};
  StepBlock({.weight_decay = false, .rate = 2, .own_weight_decay = 0.25f}, *optimizer,
            {.learning_rate = 0.5}, {1.0f}, absl::MakeSpan(weights), {});
  EXPECT_EQ(weights[0], 4 - 2 * 0.5f * (1 + 0.25f * 4));
}

}  // namespace
}  // namespace muster
