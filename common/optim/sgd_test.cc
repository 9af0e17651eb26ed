#include <vector>

#include "common/optim/optimizer_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

Formula SgdFormula(double lambda) {
  return [=](const FormulaStep& step, double& w, std::vector<double>&) {
    const double decay = step.regularise ? lambda : 0;
    w = w - step.learning_rate * (step.g + decay * w);
  };
}

// Sutskever et al. (2013), equations 1 and 2, with a velocity v: v' = μv - ηg(w), w' = w + v'. The
// state is -v/η, as the rate is constant here.
Formula ClassicalMomentum(double mu, double lambda) {
  return [=](const FormulaStep& step, double& w, std::vector<double>& state) {
    const double decay = step.regularise ? lambda : 0;
    const double velocity = -step.learning_rate * state[0];
    const double next = mu * velocity - step.learning_rate * (step.g + decay * w);
    state[0] = -next / step.learning_rate;
    w += next;
  };
}

// Equations 3 and 4: the gradient is taken at w + μv, which is where the stored weights are: w' = w
// + v' for the underlying weights, and the stored ones are u = w + μv.
Formula NesterovMomentum(double mu) {
  return [=](const FormulaStep& step, double& u, std::vector<double>& state) {
    const double velocity = -step.learning_rate * state[0];
    const double w = u - mu * velocity;
    const double next = mu * velocity - step.learning_rate * step.g;
    state[0] = -next / step.learning_rate;
    u = w + next + mu * next;
  };
}

TEST(SgdTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'sgd' learning_rate: 1", .formula = SgdFormula(0)});
  ExpectFollowsFormula(
      {.spec = "name: 'sgd' learning_rate: 1 weight_decay: 0.25", .formula = SgdFormula(0.25)});
}

TEST(MomentumTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'momentum' learning_rate: 1",
                        .formula = ClassicalMomentum(0.9, 0),
                        .first_state = {0},
                        .vary_learning_rate = false});
  ExpectFollowsFormula({.spec = "name: 'momentum' learning_rate: 1 momentum: 0.5 weight_decay: 0.1",
                        .formula = ClassicalMomentum(0.5, 0.1),
                        .first_state = {0},
                        .vary_learning_rate = false});
}

TEST(NesterovTest, FollowsItsFormula) {
  ExpectFollowsFormula({.spec = "name: 'nesterov' learning_rate: 1",
                        .formula = NesterovMomentum(0.9),
                        .first_state = {0},
                        .vary_learning_rate = false});
}

TEST(NesterovTest, DecayIsPartOfTheGradient) {
  ExpectFollowsFormula({.spec = "name: 'nesterov' learning_rate: 1 momentum: 0.8 weight_decay: 0.1",
                        .formula =
                            [](const FormulaStep& step, double& w, std::vector<double>& state) {
                              FormulaStep decayed = step;
                              decayed.g += step.regularise ? 0.1 * w : 0;
                              NesterovMomentum(0.8)(decayed, w, state);
                            },
                        .first_state = {0},
                        .vary_learning_rate = false});
}

}  // namespace
}  // namespace muster
