#ifndef MUSTER_COMMON_STEP_STAGE_SCHEDULE_H_
#define MUSTER_COMMON_STEP_STAGE_SCHEDULE_H_

#include <vector>

#include "absl/types/span.h"
#include "common/step/action.h"
#include "common/step/stage_shape.h"

namespace muster {

// Returns, by stage, what each stage does in a step, in order: the passes of compute_order.h, and
// the sends and receives between them. A stage starts sends and receives that follow one another as
// one batch, goes on, and waits for a receive before the pass that reads it. The next batch may
// wait until all of the one before has arrived, as on NCCL; and nothing need be stored on the way.
//
// No execution deadlocks: there is one order of all actions of all stages, by the time at which
// passes end if each takes as long as any other (a transfer comes right after the pass that makes
// it), and each stage's list keeps to it on both sides of a transfer. So the first action in this
// order that is not done yet waits for nothing. Receives come before the pass during which they are
// expected to arrive.
//
// A pure function, so every stage can make the same lists. REQUIRES: as ComputeOrder.
std::vector<std::vector<StepAction>> StageSchedules(const StageShape& shape);

// The most that a stage holds at any time of a step.
struct StageHoldings {
  // Micro-batches of a virtual stage between its forward and the gradient of its input, both
  // included.
  int activations = 0;
  // The same to the gradients of weights: number of activation stashes of one virtual stage.
  int saved = 0;
  // Inputs and gradients that are received, from the start of the batch to the end of the pass that
  // reads them.
  int received_activations = 0;
  int received_gradients = 0;

  friend bool operator==(const StageHoldings& a, const StageHoldings& b) = default;
};

// Returns the holdings of a stage whose list this is.
StageHoldings HoldingsOf(absl::Span<const StepAction> actions);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STAGE_SCHEDULE_H_
