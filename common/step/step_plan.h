#ifndef MUSTER_COMMON_STEP_STEP_PLAN_H_
#define MUSTER_COMMON_STEP_STEP_PLAN_H_

#include <vector>

#include "common/step/action.h"
#include "common/step/stage_shape.h"

namespace muster {

// The plan of a step depends on these beside its stage.
struct StepTraits {
  // True if the model has sparse tables. REQUIRES: there is one stage.
  bool has_rows = false;
  // True if the loss is scaled for backward, so that the strategy decides about gradients that are
  // not finite. REQUIRES: not with rows.
  bool scaled_loss = false;
  // True if the gradients of each micro-batch leave, not their sum.
  bool sends_micro_batches = false;
  // True if the model is on a device: the host does not look at gradients, and takes the loss once.
  bool on_device = false;
  // True if blocks have experts: on a device every stage has results, which are their loads.
  bool has_experts = false;
};

// Returns the actions of one training step of a stage, in order: the schedule of
// common/step/stage_schedule.h, in which each pass of a virtual stage runs its units one by one.
// Without a pipeline the one stage has all units, and micro-batches run one after another.
//
// A micro-batch's rows are fetched as soon as its examples are known, so that they travel beside
// the dense parameters; their gradients are pushed after its backward. A unit is acquired right
// before it runs and released right after; the last one once for both directions, and none for
// kBackwardWeights, which reads no parameters. kLastUnit runs at the beginning of the last virtual
// stage's backward, and so does not keep logits between the two. kBeginBackward comes before a
// micro-batch's first backward on the stage. On a device kCheckLoss comes once, after the step, and
// also in stages without a loss where blocks have experts.
//
// A micro-batch of a chunk has an activation stash from its forward to the end of its backward; the
// sets are as many as MostActivationStashes says. Where backward passes of micro-batches overlap
// (kInterleaved, kZeroBubble), kGradientReady is left out of micro-batches whose gradients stay.
//
// A pure function, as those below; StepExecutor executes the actions.
std::vector<StepAction> TrainingStepPlan(const ModelStage& stage, const StepTraits& traits);

// Returns whether kGradientReady of a micro-batch leaves complete gradients, not scaled, which have
// to be finite.
bool ChecksGradients(const ModelStage& stage, const StepTraits& traits, int micro_batch);

// Returns the actions of one forward pass of a stage over a batch that is loaded, at the clock of
// the last kBeginStep. The stage with the last unit has the results.
std::vector<StepAction> EvaluationPlan(const ModelStage& stage, bool has_rows);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STEP_PLAN_H_
