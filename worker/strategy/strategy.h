#ifndef MUSTER_WORKER_STRATEGY_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_STRATEGY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/nn/model.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/training_state.h"

namespace muster {

// How gradients become new parameters. The trainer calls the hooks around the layer units of one
// step at a time:
//
//   BeginStep(c)
//   once per micro-batch, one or more:
//     Prefetch; LookUp; BeforeForward(u) for u = 0, 1, …;
//     BeforeBackward(examples, position); [Withdraw;] GradientReady(u) for u = U-1, …, 0; PushRows
//   EndStep
//
// The gradients of a step's micro-batches add up here; nothing of them leaves before the last.
// Between BeginStep and BeforeBackward any number of forward-only passes may read parameters and
// rows (evaluation). Every hook may block until the data plane answered, and returns:
//   Aborted       another incarnation or generation took over: the task must end;
//   Unavailable   servers stayed out of reach longer than the strategy was told to wait;
//   others        as the servers refused an operation (the message names partition and clock).
// After an error only destruction is allowed. Used by one thread, the trainer's.
class Strategy : public TrainingState {
 public:
  // Starts to fetch the parameters that a step at `clock` reads, the first unit's first.
  virtual absl::Status BeginStep(uint64_t clock) = 0;

  // Waits until the unit's parameters are there.
  virtual absl::Status BeforeForward(int unit) = 0;

  // Starts to fetch the rows of the micro-batch's keys, as they are for the clock of BeginStep. One
  // micro-batch at a time: LookUp of it follows before the next.
  virtual absl::Status Prefetch(const MicroBatch& micro_batch) = 0;

  // Fills SparseRows::rows of every table with the rows that Prefetch of the same micro-batch asked
  // for.
  virtual absl::Status LookUp(MicroBatch& micro_batch) = 0;

  // Prepares the gradients for a micro-batch whose part of the loss weighs `examples`
  // (MicroBatch::loss_weight: its labels, where an example has several), which is what the step's
  // sum is divided by. The first call after BeginStep makes gradients ready (gradients() changes)
  // that hold nothing in particular: the micro-batch writes them all. Later calls leave them as
  // they are, to be added to. REQUIRES: BeforeForward of all units. The last unit's forward pass
  // follows, since it writes gradients, too.
  virtual absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) = 0;

  // Takes back what this slot has put into the step: no gradients, no examples. The step goes on as
  // ever, and what leaves is nothing; where that is so of all slots, it changes no parameter, no
  // optimizer state and no number of steps, and the clock goes on. In the last micro-batch, before
  // its first GradientReady. REQUIRES: the model has no sparse tables.
  virtual absl::Status Withdraw() = 0;

  // The micro-batch has added its part to the unit's gradients. In the last one they are complete
  // and are not written any more: starts to send them.
  virtual absl::Status GradientReady(int unit) = 0;

  // Takes the micro-batch's sparse gradients, whose keys are distinct, and leaves unspecified ones;
  // after the last one starts to send the step's.
  virtual absl::Status PushRows(MicroBatch& micro_batch) = 0;

  // Ends this slot's contribution at the clock. Returns when all of it is acknowledged.
  virtual absl::Status EndStep() = 0;

  // By tensor index of the model's description. Parameters are readable after BeforeForward of
  // their unit and until the next BeginStep; their spans never change. Gradients are writable
  // between BeforeBackward and GradientReady of the same micro-batch; between the last
  // GradientReady and EndStep they hold nothing in particular.
  virtual ParameterSpans parameters() const = 0;
  // Those that came in the type that the model computes with (LayerContext::rounded_parameters),
  // whose spans among the parameters are empty. They are readable when parameters are.
  virtual absl::Span<const void* const> rounded_parameters() const = 0;
  virtual GradientSpans gradients() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_STRATEGY_H_
