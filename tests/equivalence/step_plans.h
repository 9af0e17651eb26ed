#ifndef MUSTER_TESTS_EQUIVALENCE_STEP_PLANS_H_
#define MUSTER_TESTS_EQUIVALENCE_STEP_PLANS_H_

#include <vector>

#include "worker/runtime/training/step_plan.h"

namespace muster {

// Plans that come to the same bits as TrainingStepPlan.

// The gradients of weights come after the whole backward pass of a micro-batch.
std::vector<StepAction> SplitBackwardPlan(const StepShape& shape);

// All micro-batches of a step run forward, up to their last unit, before the first runs backward;
// each has its own saved set.
std::vector<StepAction> ForwardFirstPlan(const StepShape& shape);

// Both.
std::vector<StepAction> ForwardFirstSplitBackwardPlan(const StepShape& shape);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_STEP_PLANS_H_
