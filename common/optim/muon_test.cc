#include <string>
#include <vector>

#include "common/optim/matrix_rule.h"
#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MuonTest, DirectionLooksAheadAndLeavesTheMomentum) {
  const auto optimizer = MakeOptimizer("name: 'muon' learning_rate: 1 momentum: 0.5");
  std::vector<float> state = {8, -4, 0, 0};
  const std::vector<float> gradient = {4, 100};
  optimizer->matrix_rule()->Direct({.gradient_scale = 0.5f, .clip_value = 6}, gradient,
                                   absl::MakeSpan(state));
  // g + μ(μm + g) of gradients 2 and 6.
  EXPECT_THAT(state, ElementsAre(8, -4, 2 + 0.5f * (4 + 2), 6 + 0.5f * (-2 + 6)));
}

TEST(MuonTest, MovesByTheLargerExtentAndDecay) {
  const auto optimizer =
      MakeOptimizer("name: 'muon' learning_rate: 1 momentum: 0.5 weight_decay: 0.5");
  std::vector<float> weights = {4}, state = {8, 1};
  optimizer->matrix_rule()->Move({.learning_rate = 0.25f}, /*rows=*/4, /*columns=*/25, {2.0f},
                                 absl::MakeSpan(weights), absl::MakeSpan(state));
  EXPECT_FLOAT_EQ(weights[0], 4 - 0.25f * (0.2f * 5 * 1 + 0.5f * 4));
  EXPECT_EQ(state[0], 0.5f * 8 + 2);
}

TEST(MuonTest, OptionsAreThoseOfMomentumAndAdamW) {
  EXPECT_THAT(MakeOptimizer("name: 'muon' learning_rate: 1")->state_names(), ElementsAre("m", "v"));
  EXPECT_EQ(MakeOptimizer("name: 'adamw' learning_rate: 1")->matrix_rule(), nullptr);
  EXPECT_NE(MakeOptimizer("name: 'muon' learning_rate: 1 average_decay: 0.5")->matrix_rule(),
            nullptr);
  EXPECT_THAT(OptimizerError("name: 'muon' learning_rate: 1 l1: 1").message(), HasSubstr("l1"));
  EXPECT_THAT(OptimizerError("name: 'muon' learning_rate: 1 momentum: 1").message(),
              HasSubstr("momentum is 1 for muon"));
  EXPECT_THAT(OptimizerError("name: 'muon' learning_rate: 1 state_type: BF16").message(),
              HasSubstr("optimizer.name is muon"));
}

}  // namespace
}  // namespace muster
