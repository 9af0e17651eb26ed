#ifndef MUSTER_COMMON_STEP_ACTION_H_
#define MUSTER_COMMON_STEP_ACTION_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

// Names what ranks do in a step, and what else traces show. It is the one vocabulary of the
// schedules of stages, of the plans that workers execute, of `muster plan --order` and of traces.
// Each has a name and a category in action.cc.
enum class ActionKind : uint8_t {
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
  // Units but the last: the gradients of the input and of the weights.
  kBackward,
  // The same in two actions (Model::BackwardInput): what earlier units wait for, and the rest.
  kBackwardInput,
  kBackwardWeights,
  // The micro-batch has added its part to the unit's gradients, which the strategy may send from
  // now on, while earlier units compute (Strategy::GradientReady).
  kGradientReady,
  kPushRows,
  // Queue a message with another stage, which starts after the last of adjacent ones: the input of
  // a virtual stage, and its output; the gradient of its output, and of its input.
  kReceiveActivation,
  kSendActivation,
  kReceiveGradient,
  kSendGradient,
  // Wait for what was received, and give it to the next unit's forward, or the unit's backward.
  kAwaitActivation,
  kAwaitGradient,
  // Waits until all messages with other stages have ended.
  kFinishMessages,
  kEndStep,

  // What a task does beyond the actions of a step: the whole step, a wait within an action, and
  // what comes between steps.
  kStep,
  kWait,
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  // Requests to servers, from sending to answer.
  kPull,
  kRowPull,
  kPush,
  kRowPush,
  kClose,
  kClip,
  kCut,
  // A collective call, whose label is its name.
  kCollective,
  // Parts of a server's work.
  kBatch,
  kTakePush,
  kTakeClose,
  kServePull,
  kLogSync,
  kLast = kLogSync,
};

// Returns the name for people, such as "forward", and the category, such as "compute".
absl::string_view NameOf(ActionKind kind);
absl::string_view CategoryOf(ActionKind kind);

// The way in which a pass goes through a model's units: kForward from the first to the last,
// kBackward from the last to the first.
enum class Direction { kForward, kBackward };

// One action of a step of one stage, which has one or several virtual stages (stage_shape.h): its
// chunks. In a schedule an action is of a whole virtual stage, in a plan of one unit.
struct StepAction {
  ActionKind kind = ActionKind::kBeginStep;
  // -1 in schedules, and in actions that are not of one unit.
  int unit = -1;
  int micro_batch = 0;
  // The pass that kAcquire and kRelease are for.
  Direction direction = Direction::kForward;
  // The activation stash (MicroBatch) that holds the micro-batch, from 0 on; of plans. From its
  // kLoad to its last action no other micro-batch has the set.
  int saved = 0;
  int chunk = 0;
  // The other stage of a message.
  int peer = -1;

  bool receives() const {
    return kind == ActionKind::kReceiveActivation || kind == ActionKind::kReceiveGradient;
  }
  bool sends() const {
    return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
  }
  // Returns whether the action queues a message.
  bool transfers() const { return receives() || sends(); }
  // Returns whether a message of the action has a gradient.
  bool of_gradient() const {
    return kind == ActionKind::kReceiveGradient || kind == ActionKind::kSendGradient ||
           kind == ActionKind::kAwaitGradient;
  }

  friend bool operator==(const StepAction& a, const StepAction& b) = default;
};

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_ACTION_H_
