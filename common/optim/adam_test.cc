#include <cmath>
#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double lambda = 0;
};

// The moments of Kingma and Ba (2015), algorithm 1, and the corrected direction that the weights
// take.
double Direction(const AdamOptions& o, double g, uint64_t t, std::vector<double>& state) {
  double& m = state[0];
  double& v = state[1];
  m = o.beta1 * m + (1 - o.beta1) * g;
  v = o.beta2 * v + (1 - o.beta2) * g * g;
  const double m_hat = m / (1 - std::pow(o.beta1, t));
  const double v_hat = v / (1 - std::pow(o.beta2, t));
  return m_hat / (std::sqrt(v_hat) + o.epsilon);
}

Formula AdamFormula(AdamOptions o) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double g = step.g + (step.regularise ? o.lambda : 0) * w;
    w -= step.learning_rate * Direction(o, g, step.t, state);
  };
}

// Loshchilov and Hutter (2019), algorithm 2, line 12, with the schedule multiplier in η.
Formula AdamWFormula(AdamOptions o) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double direction = Direction(o, step.g, step.t, state);
    const double lambda = step.regularise ? o.lambda : 0;
    w = w - step.learning_rate * (direction + lambda * w);
  };
}

TEST(AdamTest, FollowsItsFormula) {
  ExpectFollowsFormula(
      {.spec = "name: 'adam' learning_rate: 1", .formula = AdamFormula({}), .first_state = {0, 0}});
  ExpectFollowsFormula({.spec = "name: 'adam' learning_rate: 1 beta1: 0.5 beta2: 0.75 "
                                "epsilon: 0.01 weight_decay: 0.2",
                        .formula = AdamFormula({0.5, 0.75, 0.01, 0.2}),
                        .first_state = {0, 0}});
}

TEST(AdamTest, StateIsItsMoments) {
  EXPECT_THAT(MakeOptimizer("name: 'adam' learning_rate: 1")->state_names(), ElementsAre("m", "v"));
}

TEST(AdamWTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'adamw' learning_rate: 1",
                        .formula = AdamWFormula({.lambda = 0.01}),
                        .first_state = {0, 0}});
  ExpectFollowsFormula({.spec = "name: 'adamw' learning_rate: 1 beta1: 0.5 beta2: 0.75 "
                                "epsilon: 0.01 weight_decay: 0.5",
                        .formula = AdamWFormula({0.5, 0.75, 0.01, 0.5}),
                        .first_state = {0, 0}});
}

// The bias correction must not lose its accuracy where β₂ᵗ is almost 1, nor where t is huge.
TEST(AdamTest, FirstStepIsTheRateAndLateStepsNeedNoCorrection) {
  const auto optimizer = MakeOptimizer("name: 'adam' learning_rate: 1 beta2: 0.9999999");
  std::vector<float> weights = {0}, state = {0, 0};
  optimizer->Apply({.learning_rate = 0.5f, .step = 1}, {1e-3f}, absl::MakeSpan(weights),
                   absl::MakeSpan(state));
  EXPECT_NEAR(weights[0], -0.5f, 1e-5);

  weights = {0};
  state = {1, 4};
  MakeOptimizer("name: 'adam' learning_rate: 1 beta1: 0 beta2: 0")
      ->Apply({.learning_rate = 0.5f, .step = uint64_t{1} << 60}, {2.0f}, absl::MakeSpan(weights),
              absl::MakeSpan(state));
  EXPECT_FLOAT_EQ(weights[0], -0.5f);
}

}  // namespace
}  // namespace muster
