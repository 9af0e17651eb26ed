#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_

#include <vector>

#include "worker/strategy/direction.h"

namespace muster {

// One action of a step. `unit` is set in the actions of one unit; `micro_batch` and `saved` in all
// actions except the first and the last of a step.
struct StepAction {
  enum class Kind {
    // Starts to fetch the parameters of the clock.
    kBeginStep,
    // Loads the micro-batch's examples.
    kLoad,
    // Starts to fetch the micro-batch's rows.
    kPrefetchRows,
    kLookUpRows,
    // Waits for the unit's parameters, and lets go of them.
    kAcquire,
    kRelease,
    // In training, units but the last.
    kForward,
    // Prepares the gradients.
    kBeginBackward,
    // The last unit, forward and backward.
    kLastUnit,
    // Takes the loss, and checks it: before anything of the micro-batch leaves this slot or, on a
    // device, of all micro-batches after the step.
    kCheckLoss,
    // Units but the last.
    kBackward,
    // kBackward in two actions (Model::BackwardInput): what earlier units wait for, and the rest.
    kBackwardInput,
    kBackwardWeights,
    // The micro-batch has added its part to the unit's gradients, which the strategy may send from
    // now on, while earlier units compute (Strategy::GradientReady).
    kGradientReady,
    // The same where the gradients are complete and not scaled: checks them first.
    kSendGradients,
    kPushRows,
    kEndStep,
    // These are of a pipeline's stage (stage_plan.h). They add a message from or to another stage,
    // which carries
    // the output of the unit or its gradient, to those that start together, and start them after
    // the last of neighbouring actions.
    kReceiveOutput,
    kSendOutput,
    kReceiveOutputGradient,
    kSendOutputGradient,
    // Wait for what was received, and give it to the next unit's forward, or the unit's backward.
    kAwaitOutput,
    kAwaitOutputGradient,
  };

  Kind kind;
  int unit = -1;
  int micro_batch = 0;
  // Which pass kAcquire and kRelease are for.
  Direction direction = Direction::kForward;
  // The saved set (MicroBatch) that holds the micro-batch, from 0 on. From its kLoad to its last
  // action no other micro-batch has the set.
  int saved = 0;
  // The other stage of a message.
  int peer = -1;
  // The stage's group of layers that kLoad fills the saved set for, in a pipeline.
  int chunk = 0;

  // Returns whether the action adds a message.
  bool travels() const { return Kind::kReceiveOutput <= kind && kind <= Kind::kSendOutputGradient; }
  // Returns whether the action is part of an exchange with another stage.
  bool exchanges() const { return Kind::kReceiveOutput <= kind; }

  friend bool operator==(const StepAction& a, const StepAction& b) = default;
};

struct StepShape {
  // Number of the model's units.
  int units = 1;
  // True if the model has sparse tables.
  bool has_rows = false;
  // Number of micro-batches in which this slot computes its examples, one after another.
  int micro_batches = 1;
  // True if the loss is scaled for backward, so that the strategy decides about gradients that are
  // not finite. REQUIRES: not with rows.
  bool scaled_loss = false;
  // True if the gradients of each micro-batch leave, not their sum.
  bool sends_micro_batches = false;
  // True if the model is on a device: the host does not look at gradients, and takes the loss once.
  bool on_device = false;
  // True if the gradients of weights wait until all units of a micro-batch have run kBackwardInput.
  // Models on a device may have no memory for such a micro-batch, and refuse it then.
  bool split_backward = false;
};

// Returns the actions of one training step, in order. A micro-batch's rows are fetched as soon as
// its examples are known, so that they travel beside the dense parameters; their gradients are
// pushed after each micro-batch. A unit is acquired right before it runs and released right after;
// the last one once for both directions, and none for kBackwardWeights, which reads no parameters.
// All micro-batches have one saved set. A pure function; StepExecutor executes the actions.
std::vector<StepAction> TrainingStepPlan(const StepShape& shape);

// Returns the actions of one forward pass over a batch that is loaded, at the clock of the last
// kBeginStep.
std::vector<StepAction> EvaluationPlan(int units, bool has_rows);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_PLAN_H_
