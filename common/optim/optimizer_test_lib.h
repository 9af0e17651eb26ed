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

// The optimizer of an OptimizerSpec in text format; fails the test if it is refused.
std::unique_ptr<const Optimizer> MakeOptimizer(const std::string& spec,
                                               Granularity granularity = Granularity::kElements);

// The status with which an OptimizerSpec in text format is refused.
absl::Status OptimizerError(const std::string& spec);

// What a formula gets for one step of one weight.
struct FormulaStep {
  double learning_rate = 0;
  uint64_t t = 1;
  // Scaled and limited.
  double g = 0;
  // Whether regularisation applies.
  bool regularise = true;
};
using Formula = std::function<void(const FormulaStep&, double& w, std::vector<double>& slots)>;

struct FormulaCheck {
  // OptimizerSpec in text format.
  std::string spec;
  Formula formula;
  // Value of each of the weight's slots before the first step.
  std::vector<double> first_slots;
  // Whether the learning rate changes from step to step.
  bool vary_learning_rate = true;
  // Weights start uniformly in [-initial_weight, initial_weight).
  double initial_weight = 1;
};

// Runs 25 steps over spans of many lengths at odd alignments, with and without scale, limit and
// regularisation, and expects weights and slots to follow the formula to f32's accuracy.
void ExpectFollowsFormula(const FormulaCheck& check);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_TEST_LIB_H_
