#ifndef MUSTER_COMMON_OPTIM_OPTIMIZER_TEST_LIB_H_
#define MUSTER_COMMON_OPTIM_OPTIMIZER_TEST_LIB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/optim/optimizer.h"

// Checks an optimizer against its paper's formula, written once more in f64 on one weight.

namespace muster {

// Creates the optimizer of an OptimizerSpec in text format; fails the test if it is refused.
std::unique_ptr<const Optimizer> MakeOptimizer(const std::string& spec,
                                               Granularity granularity = Granularity::kElements);

// Returns the status with which an OptimizerSpec in text format is refused.
absl::Status OptimizerError(const std::string& spec);

// The arguments of a formula for one step of one weight.
struct FormulaStep {
  double learning_rate = 0;
  uint64_t t = 1;
  // The gradient, scaled and limited.
  double g = 0;
  // Whether regularisation applies.
  bool regularise = true;
};
using Formula = std::function<void(const FormulaStep&, double& w, std::vector<double>& state)>;

struct FormulaCheck {
  // OptimizerSpec in text format.
  std::string spec;
  Formula formula;
  // A weight's initial state: one value per state array.
  std::vector<double> first_state;
  // Whether the learning rate changes from step to step.
  bool vary_learning_rate = true;
  // Weights start uniformly in [-initial_weight, initial_weight).
  double initial_weight = 1;
};

// Runs 25 steps over spans of many lengths at odd alignments, with and without scale, limit and
// regularisation, and expects weights and state to follow the formula to f32's accuracy.
void ExpectFollowsFormula(const FormulaCheck& check);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_TEST_LIB_H_
