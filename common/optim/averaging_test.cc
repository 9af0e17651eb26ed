#include <limits>
#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The average as a state array after the optimizer's own.
Formula MomentumWithAverage(double decay) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    state[0] = 0.9 * state[0] + step.g;
    w -= step.learning_rate * state[0];
    state[1] = decay * state[1] + (1 - decay) * w;
  };
}

TEST(AveragingTest, FollowsItsFormula) {
  // Weights of 0, of which the averages begin as they do.
  ExpectFollowsFormula({.spec = "name: 'momentum' learning_rate: 1 average_decay: 0.75",
                        .formula = MomentumWithAverage(0.75),
                        .first_state = {0, 0},
                        .initial_weight = 0});
}

TEST(AveragingTest, BeginsAtTheWeightsAndLeavesTheirStepsAsTheyAre) {
  const auto plain = MakeOptimizer("name: 'adam' learning_rate: 1");
  const auto averaging = MakeOptimizer("name: 'adam' learning_rate: 1 average_decay: 0.5");
  EXPECT_THAT(averaging->state_names(), ElementsAre("m", "v", "average"));
  std::vector<float> weights = {1, -2}, averaged = weights;
  std::vector<float> state(4), state_with_average(averaging->state_floats(2));
  plain->InitState(weights, absl::MakeSpan(state));
  averaging->InitState(averaged, absl::MakeSpan(state_with_average));
  EXPECT_THAT(state_with_average, ElementsAre(0, 0, 0, 0, 1, -2));
  const std::vector<float> gradient = {0.5f, -4};
  const OptimizerStep step = {.learning_rate = 0.25f};
  plain->Apply(step, gradient, absl::MakeSpan(weights), absl::MakeSpan(state));
  averaging->Apply(step, gradient, absl::MakeSpan(averaged), absl::MakeSpan(state_with_average));
  EXPECT_EQ(averaged, weights);
  EXPECT_TRUE(std::equal(state.begin(), state.end(), state_with_average.begin()));
  EXPECT_EQ(state_with_average[4], 1 + 0.5f * (weights[0] - 1));
  EXPECT_EQ(state_with_average[5], -2 + 0.5f * (weights[1] + 2));
}

TEST(AveragingTest, FollowsWeightsThatAnotherRuleMoves) {
  const auto optimizer = MakeOptimizer("name: 'sgd' learning_rate: 1 average_decay: 0.75");
  std::vector<float> state = {4, 8};
  optimizer->FollowWeights({8.0f, 8.0f}, absl::MakeSpan(state));
  EXPECT_THAT(state, ElementsAre(5, 8));
}

TEST(AveragingTest, RowsHaveNone) {
  const auto rows =
      MakeOptimizer("name: 'sgd' learning_rate: 1 average_decay: 0.75", Granularity::kRow);
  EXPECT_THAT(rows->state_names(), IsEmpty());
  EXPECT_EQ(rows->state_floats(8), 0);
}

TEST(AveragingTest, RefusesDecaysThatAreNone) {
  for (const char* decay : {"1", "-0.5", "nan", "inf"}) {
    const absl::Status status =
        OptimizerError(std::string("name: 'sgd' learning_rate: 1 average_decay: ") + decay);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << decay;
    EXPECT_THAT(std::string(status.message()), HasSubstr("average_decay is ")) << decay;
  }
}

}  // namespace
}  // namespace muster
