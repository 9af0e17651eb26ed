#include "tests/equivalence/step_plans.h"

#include <algorithm>

namespace muster {
namespace {

using Kind = StepAction::Kind;

bool IsOfForward(const StepAction& action) {
  switch (action.kind) {
    case Kind::kBeginStep:
    case Kind::kLoad:
    case Kind::kPrefetchRows:
    case Kind::kLookUpRows:
    case Kind::kForward:
      return true;
    case Kind::kAcquire:
    case Kind::kRelease:
      return action.direction == Direction::kForward;
    default:
      return false;
  }
}

}  // namespace

std::vector<StepAction> SplitBackwardPlan(const StepShape& shape) {
  StepShape split = shape;
  split.split_backward = true;
  return TrainingStepPlan(split);
}

std::vector<StepAction> ForwardFirstPlan(const StepShape& shape) {
  std::vector<StepAction> plan = TrainingStepPlan(shape);
  for (StepAction& action : plan) action.saved = action.micro_batch;
  std::stable_partition(plan.begin(), plan.end(), IsOfForward);
  return plan;
}

std::vector<StepAction> ForwardFirstSplitBackwardPlan(const StepShape& shape) {
  StepShape split = shape;
  split.split_backward = true;
  return ForwardFirstPlan(split);
}

}  // namespace muster
