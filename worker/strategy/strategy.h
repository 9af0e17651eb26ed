#ifndef MUSTER_WORKER_STRATEGY_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_STRATEGY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/kernels/accumulation.h"
#include "common/step/action.h"
#include "worker/nn/model.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/training_state.h"

namespace muster {

// How gradients become new parameters. The engine calls the hooks around the units of one step at a
// time:
//
//   BeginStep(c)
//   once per micro-batch, one or more:
//     Prefetch; LookUp
//     Acquire(u, kForward); Release(u, kForward)     for u = 0, 1, …
//     BeforeBackward(examples, position)
//     Acquire(u, kBackward); Release(u, kBackward)   for u = U-1, …, 0
//     GradientReady(u)                               for u = U-1, …, 0, after the unit's Release
//     PushRows
//   EndStep
//
// With several stages BeforeBackward may come before the last GradientReady of the micro-batch
// before, whose GradientReady are left out then, unless its gradients leave
// (common/step/step_plan.h).
//
// GradientReady(u) may come later than the unit's Release: a backward in two parts computes weight
// gradients last. Where units share memory for gradients (ZeRO stages 2 and 3) it must come before
// Acquire(u-2, kBackward).
//
// A unit that computes forward and backward in one go (the last) is acquired once for both, for
// kBackward, before BeforeBackward. The gradients of a step's micro-batches add up here, and leave
// after the last; or each micro-batch's leave, and add up where they come to. Between BeginStep and
// BeforeBackward any number of forward-only passes may acquire units and look rows up (evaluation).
// So may passes in any order of units, which acquire for kForward and write gradients elsewhere,
// once the step's last backward has released its units (verified_step.h). Every hook that returns a
// status may block until the data plane answered, and returns:
//   Aborted       another incarnation or generation took over: the task must end;
//   Unavailable   servers stayed out of reach longer than the strategy was told to wait;
//   others        as the servers refused an operation (the message names partition and clock).
// After an error only destruction is allowed. Used by one thread, the trainer's.
class Strategy : public TrainingState {
 public:
  // Starts to fetch the parameters that a step at `clock` reads, the first unit's first. REQUIRES:
  // no unit is acquired.
  virtual absl::Status BeginStep(uint64_t clock) = 0;

  // Waits until the unit's parameters are readable, tied ones included, whose values are another
  // unit's; for kBackward also until its gradients may be written. The parameters stay readable
  // until Release. `direction` also says which unit comes next. REQUIRES: the unit is not acquired.
  virtual absl::Status Acquire(int unit, Direction direction) = 0;

  // Ends what Acquire began: nobody reads the unit's parameters any more until it is acquired
  // again. REQUIRES: the unit is acquired, in the same direction.
  virtual void Release(int unit, Direction direction) = 0;

  // Returns the parameters, by tensor index of the model's description, in memory where the model
  // computes: readable are those of acquired units. Their addresses never change.
  virtual ModelParameters parameters() const = 0;

  // Starts to fetch the rows of the micro-batch's keys, as they are for the clock of BeginStep. One
  // micro-batch at a time: LookUp of it follows before the next.
  virtual absl::Status Prefetch(const MicroBatch& micro_batch) = 0;

  // Fills SparseRows::rows of every table with the rows that Prefetch of the same micro-batch asked
  // for.
  virtual absl::Status LookUp(MicroBatch& micro_batch) = 0;

  // Prepares the gradients for a micro-batch whose part of the loss weighs `examples`
  // (MicroBatch::loss_weight: its labels, where an example has several), which is what the step's
  // sum is divided by. gradients() may change with the first of a step. REQUIRES: every unit was
  // acquired since BeginStep.
  virtual absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) = 0;

  // Returns how the micro-batch of the last BeforeBackward leaves the unit's gradients: kWrite if
  // they hold nothing in particular, kAdd if they hold the sum of earlier micro-batches. Where two
  // units have a tied tensor and both answers are kWrite, the unit that comes first in backward
  // writes it and the other adds.
  virtual Accumulation GradientStore(int unit) const = 0;

  // Returns the gradients by tensor index. A unit's gradients are writable from its Acquire for
  // kBackward and from BeforeBackward on, until GradientReady of the same micro-batch. After that,
  // and between the last GradientReady and EndStep, their contents are undefined, because units may
  // share memory.
  virtual GradientSpans gradients() const = 0;

  // Returns what the step's loss is multiplied by before backward, and all gradients with it; 1
  // unless the job computes in f16, which models with sparse tables do not. Const from the first
  // BeforeBackward of a step on.
  virtual float loss_scale() const = 0;

  // Tells that the micro-batch has added its part to the unit's gradients and writes them no more.
  // Starts to send them: in every micro-batch if units share memory, otherwise in the last one,
  // when they are complete. Scaled gradients need not be finite. If they are not, the step is left
  // out: it changes no parameter, no optimizer state and no number of steps; the clock goes on with
  // a smaller loss scale. Under BSP this holds for all slots, otherwise for this one. OutOfRange,
  // here or from EndStep: there is no smaller loss scale.
  virtual absl::Status GradientReady(int unit) = 0;

  // Takes the micro-batch's sparse gradients, whose keys are distinct, and leaves unspecified ones;
  // after the last one starts to send the step's.
  virtual absl::Status PushRows(MicroBatch& micro_batch) = 0;

  // Ends this slot's contribution at the clock. Returns when all of it is acknowledged.
  virtual absl::Status EndStep() = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_STRATEGY_H_
