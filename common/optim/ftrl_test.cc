#include <cmath>
#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

struct FtrlOptions {
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
};

// McMahan et al. (2013), algorithm 1, in the paper's order: weights are made of z and n, then z and
// n take the gradient. `w` is the weight of the next round.
Formula FtrlFormula(FtrlOptions o) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double alpha = step.learning_rate;
    const double l1 = step.regularise ? o.l1 : 0;
    const double l2 = step.regularise ? o.l2 : 0;
    double& z = state[0];
    double& n = state[1];
    const auto weight = [&] {
      if (std::fabs(z) <= l1) return 0.0;
      return -(z - (z > 0 ? l1 : -l1)) / ((o.beta + std::sqrt(n)) / alpha + l2);
    };
    const double present = weight();
    const double sigma = (std::sqrt(n + step.g * step.g) - std::sqrt(n)) / alpha;
    z += step.g - sigma * present;
    n += step.g * step.g;
    w = weight();
  };
}

TEST(FtrlTest, FollowsItsFormulaFromZero) {
  ExpectFollowsFormula({.spec = "name: 'ftrl' learning_rate: 1",
                        .formula = FtrlFormula({}),
                        .first_state = {0, 0},
                        .vary_learning_rate = false,
                        .initial_weight = 0});
  ExpectFollowsFormula(
      {.spec = "name: 'ftrl' learning_rate: 1 beta: 0.25 l1: 0.5 l2: 2 initial_accumulator: 0.1",
       .formula = FtrlFormula({0.25, 0.5, 2}),
       .first_state = {0, 0.1},
       .vary_learning_rate = false,
       .initial_weight = 0});
}

std::vector<float> Train(const Optimizer& optimizer, std::vector<float> weights,
                         const std::vector<std::vector<float>>& gradients,
                         const std::vector<float>& rates) {
  std::vector<float> state(optimizer.state_floats(weights.size()));
  optimizer.InitState(weights, absl::MakeSpan(state));
  for (size_t t = 0; t < gradients.size(); ++t) {
    optimizer.Apply({.learning_rate = rates[t], .step = t + 1}, gradients[t],
                    absl::MakeSpan(weights), absl::MakeSpan(state));
  }
  return weights;
}

TEST(FtrlTest, L1MakesWeightsExactlyZero) {
  const auto optimizer = MakeOptimizer("name: 'ftrl' learning_rate: 1 l1: 1");
  // |z| stays below l1 for the first, goes above it for the second, and comes back for the third.
  const auto weights =
      Train(*optimizer, {0, 0, 0}, {{0.5f, 0.5f, -3}, {0.25f, 2, 2.5f}}, {0.1f, 0.1f});
  EXPECT_EQ(weights[0], 0);
  EXPECT_LT(weights[1], 0);
  EXPECT_EQ(weights[2], 0);
}

TEST(FtrlTest, WeightsWithoutGradientStayToTheBit) {
  const auto optimizer = MakeOptimizer("name: 'ftrl' learning_rate: 1 l1: 100 l2: 3");
  const std::vector<float> first = {0.3f, -1e-7f, 12345.678f};
  EXPECT_EQ(Train(*optimizer, first, {{0, 0, 0}, {0, 0, 0}}, {0.1f, 0.01f}), first);
  const auto bare = MakeOptimizer("name: 'ftrl' learning_rate: 1 beta: 0");
  EXPECT_EQ(Train(*bare, first, {{0, 0, 0}}, {0.1f}), first);
}

// Initial weights of a dense layer are not 0; the paper's z = 0 would throw them away with the
// first gradient.
TEST(FtrlTest, StepsAwayFromInitialWeights) {
  const auto optimizer = MakeOptimizer("name: 'ftrl' learning_rate: 1");
  const auto weights = Train(*optimizer, {0.5f, -0.5f}, {{3, 3}}, {0.1f});
  // D = (1 + 3) / 0.1.
  EXPECT_NEAR(weights[0], 0.5f - 3 / 40.0f, 1e-6);
  EXPECT_NEAR(weights[1], -0.5f - 3 / 40.0f, 1e-6);
}

TEST(FtrlTest, WarmUpDoesNotRescaleWeights) {
  const auto optimizer = MakeOptimizer("name: 'ftrl' learning_rate: 1");
  const auto weights = Train(*optimizer, {0.5f}, {{1e-3f}, {1e-3f}, {1e-3f}}, {1e-4f, 1e-2f, 1});
  EXPECT_NEAR(weights[0], 0.5f - 1e-3f, 2e-5);
}

TEST(FtrlTest, RateOfZeroChangesNothing) {
  const auto optimizer = MakeOptimizer("name: 'ftrl' learning_rate: 1 l1: 1");
  EXPECT_EQ(Train(*optimizer, {0.5f}, {{2}}, {0}), std::vector<float>({0.5f}));
}

TEST(FtrlTest, StateIsThePapers) {
  EXPECT_THAT(MakeOptimizer("name: 'ftrl' learning_rate: 1")->state_names(), ElementsAre("z", "n"));
}

}  // namespace
}  // namespace muster
