#include <cmath>
#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Duchi, Hazan, Singer (2011), figure 1 with a diagonal matrix: x' = x - η g / (δ + s), s = √(Σ
// g²).
Formula AdagradFormula(double delta, double lambda) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double g = step.g + (step.regularise ? lambda : 0) * w;
    state[0] += g * g;
    w -= step.learning_rate * g / (delta + std::sqrt(state[0]));
  };
}

TEST(AdagradTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'adagrad' learning_rate: 1",
                        .formula = AdagradFormula(1e-10, 0),
                        .first_state = {0}});
  ExpectFollowsFormula({.spec = "name: 'adagrad' learning_rate: 1 epsilon: 0.01 "
                                "initial_accumulator: 0.5 weight_decay: 0.2",
                        .formula = AdagradFormula(0.01, 0.2),
                        .first_state = {0.5}});
}

TEST(RowWiseAdagradTest, IsAdagradOnElements) {
  ExpectFollowsFormula({.spec = "name: 'row_wise_adagrad' learning_rate: 1 weight_decay: 0.2",
                        .formula = AdagradFormula(1e-10, 0.2),
                        .first_state = {0}});
}

class RowWiseAdagradRowTest : public testing::TestWithParam<size_t> {};

TEST_P(RowWiseAdagradRowTest, KeepsOneAccumulatorForTheRow) {
  const size_t n = GetParam();
  const auto optimizer = MakeOptimizer(
      "name: 'row_wise_adagrad' learning_rate: 1 epsilon: 0.01 initial_accumulator: 0.5 "
      "weight_decay: 0.2",
      Granularity::kRow);
  EXPECT_THAT(optimizer->state_names(), ElementsAre("accumulator"));
  ASSERT_EQ(optimizer->state_floats(n), 1);
  std::vector<float> state(1);
  optimizer->InitState(std::vector<float>(n), absl::MakeSpan(state));
  ASSERT_EQ(state[0], 0.5f);

  std::vector<float> weights(n), gradient(n);
  std::vector<double> expected(n);
  double accumulator = 0.5;
  for (size_t i = 0; i < n; ++i) expected[i] = weights[i] = 0.5f - 0.01f * i;
  for (int t = 1; t <= 10; ++t) {
    OptimizerStep step;
    step.learning_rate = 0.1f;
    step.step = t;
    step.gradient_scale = 0.5f;
    step.clip_value = 0.4f;
    step.weight_decay = t % 2 == 0;
    double squares = 0;
    std::vector<double> used(n);
    for (size_t i = 0; i < n; ++i) {
      gradient[i] = std::sin(1.0 * i + t);
      used[i] = std::clamp(0.5 * gradient[i], -double{0.4f}, double{0.4f}) +
                (step.weight_decay ? 0.2 * expected[i] : 0);
      squares += used[i] * used[i];
    }
    accumulator += squares / n;
    for (size_t i = 0; i < n; ++i) {
      expected[i] -= double{0.1f} * used[i] / (std::sqrt(accumulator) + 0.01);
    }
    optimizer->Apply(step, gradient, absl::MakeSpan(weights), absl::MakeSpan(state));
    ASSERT_NEAR(state[0], accumulator, 1e-5);
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(weights[i], expected[i], 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, RowWiseAdagradRowTest, testing::Values(1, 4, 16, 19, 64, 100));

TEST(RowWiseAdagradTest, RowOfNothingIsLeftAlone) {
  const auto optimizer = MakeOptimizer(
      "name: 'row_wise_adagrad' learning_rate: 1 initial_accumulator: 0.5", Granularity::kRow);
  std::vector<float> state(1);
  optimizer->InitState({}, absl::MakeSpan(state));
  optimizer->Apply({.learning_rate = 1}, {}, {}, absl::MakeSpan(state));
  EXPECT_EQ(state[0], 0.5f);
}

}  // namespace
}  // namespace muster
