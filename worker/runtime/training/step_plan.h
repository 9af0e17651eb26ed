#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_

#include <vector>

namespace muster {

// One thing that the trainer does in a step; `unit` is for those about a layer unit, `micro_batch`
// for all but the first and the last of a step.
struct StepAction {
  enum class Kind {
    // Starts to fetch the parameters of this clock.
    kBeginStep,
    // Takes the examples of the micro-batch in.
    kLoad,
    // Starts to fetch its rows; waits for them.
    kPrefetchRows,
    kLookUpRows,
    // Waits for the unit's parameters and runs it.
    kForward,
    // Looks at the loss before anything of the step leaves this slot, and makes gradients ready:
    // the first micro-batch writes them, the others add to them.
    kBeginBackward,
    kBackward,
    // The micro-batch has added its part to the unit's gradients.
    kGradientReady,
    // The same, and it was the last: they are sent while earlier units still compute.
    kSendGradients,
    // Backward has left all units, the loss of which was scaled: divides the gradients by that, and
    // looks whether they overflowed, before anything of them leaves this slot.
    kUnscale,
    kPushRows,
    kEndStep,
  };

  Kind kind;
  int unit = -1;
  int micro_batch = 0;

  friend bool operator==(const StepAction& a, const StepAction& b) {
    return a.kind == b.kind && a.unit == b.unit && a.micro_batch == b.micro_batch;
  }
};

struct StepShape {
  // Layer units of the model.
  int units = 1;
  // Whether it has sparse tables.
  bool has_rows = false;
  // Parts that this slot's examples of the step are computed in, one after another.
  int micro_batches = 1;
  // Whether the loss is scaled for backward. Not together with rows.
  bool scaled_loss = false;
};

// What one training step consists of, in order. Rows are asked for right after the batch is known,
// so that they travel beside the dense parameters, and are handed on with each micro-batch. A pure
// function; the trainer executes it.
std::vector<StepAction> TrainingStepPlan(const StepShape& shape);

// One forward pass over a batch, at the clock of the last kBeginStep.
std::vector<StepAction> EvaluationPlan(int units, bool has_rows);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_
