#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Chen et al. (2023), algorithm 2.
Formula LionFormula(double beta1, double beta2, double lambda) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    double& m = state[0];
    const double c = beta1 * m + (1 - beta1) * step.g;
    const double sign = (c > 0) - (c < 0);
    w -= step.learning_rate * (sign + (step.regularise ? lambda : 0) * w);
    m = beta2 * m + (1 - beta2) * step.g;
  };
}

TEST(LionTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'lion' learning_rate: 1",
                        .formula = LionFormula(0.9, 0.99, 0),
                        .first_state = {0}});
  ExpectFollowsFormula(
      {.spec = "name: 'lion' learning_rate: 1 beta1: 0.5 beta2: 0.75 weight_decay: 0.2",
       .formula = LionFormula(0.5, 0.75, 0.2),
       .first_state = {0}});
}

TEST(LionTest, StateIsItsMomentum) {
  EXPECT_THAT(MakeOptimizer("name: 'lion' learning_rate: 1")->state_names(), ElementsAre("m"));
}

// A weight that never had a gradient stays where it is.
TEST(LionTest, WithoutGradientsNothingMoves) {
  std::vector<float> weights = {0.5f, 0.5f}, state = {0, 0};
  MakeOptimizer("name: 'lion' learning_rate: 1")
      ->Apply({.learning_rate = 0.25f}, {0.0f, -1e-30f}, absl::MakeSpan(weights),
              absl::MakeSpan(state));
  EXPECT_THAT(weights, ElementsAre(0.5f, 0.75f));
}

}  // namespace
}  // namespace muster
