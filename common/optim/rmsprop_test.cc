#include <cmath>
#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Tieleman and Hinton (2012), lecture 6.5: MeanSquare' = ρ MeanSquare + (1-ρ) g²; w' = w - η g /
// √MeanSquare'.
Formula RmspropFormula(double rho, double epsilon, double lambda) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double g = step.g + (step.regularise ? lambda : 0) * w;
    state[0] = rho * state[0] + (1 - rho) * g * g;
    w -= step.learning_rate * g / (std::sqrt(state[0]) + epsilon);
  };
}

TEST(RmspropTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'rmsprop' learning_rate: 1",
                        .formula = RmspropFormula(0.9, 1e-8, 0),
                        .first_state = {0}});
  ExpectFollowsFormula(
      {.spec = "name: 'rmsprop' learning_rate: 1 decay: 0.75 epsilon: 0.01 weight_decay: 0.2",
       .formula = RmspropFormula(0.75, 0.01, 0.2),
       .first_state = {0}});
}

}  // namespace
}  // namespace muster
