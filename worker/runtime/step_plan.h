#ifndef MUSTER_WORKER_RUNTIME_STEP_PLAN_H_
#define MUSTER_WORKER_RUNTIME_STEP_PLAN_H_

#include <vector>

namespace muster {

// One thing that the trainer does in a step; `unit` is for those about a layer unit.
struct StepAction {
  enum class Kind {
    // Starts to fetch the parameters of this clock.
    kBeginStep,
    // Takes the next batch into the micro-batch.
    kLoad,
    // Starts to fetch its rows; waits for them.
    kPrefetchRows,
    kLookUpRows,
    // Waits for the unit's parameters and runs it.
    kForward,
    // Looks at the loss before anything of the step leaves this slot, and makes zeroed gradients
    // ready.
    kBeginBackward,
    kBackward,
    // The unit's gradients are sent while earlier units still compute.
    kSendGradients,
    kPushRows,
    kEndStep,
  };

  Kind kind;
  int unit = -1;

  friend bool operator==(const StepAction& a, const StepAction& b) {
    return a.kind == b.kind && a.unit == b.unit;
  }
};

// What one training step of a model of `units` layer units consists of, in order. Rows are asked
// for right after the batch is known, so that they travel beside the dense parameters; `has_rows`
// leaves them out for models without sparse tables. A pure function; the trainer executes it.
std::vector<StepAction> TrainingStepPlan(int units, bool has_rows);

// One forward pass over a batch, at the clock of the last kBeginStep.
std::vector<StepAction> EvaluationPlan(int units, bool has_rows);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_STEP_PLAN_H_
