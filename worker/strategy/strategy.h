#ifndef MUSTER_WORKER_STRATEGY_STRATEGY_H_
#define MUSTER_WORKER_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "worker/nn/micro_batch_place.h"
#include "worker/nn/model.h"

namespace muster {

class BackgroundCuts;

// What a strategy moved and saw since it was created.
struct StrategyCounters {
  // Payload sent to servers (gradients, and keys of rows to pull) and received from them.
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  // Per training step: the most clocks of any other slot that the parameters it read could lack;
  // summed over the steps, and the largest.
  uint64_t staleness_sum = 0;
  uint64_t staleness_max = 0;
  // Payload of collective calls: of the dense gradients' buckets (2(W-1)/W of their bytes, each
  // way, summed over the ranks), and of all else that a step exchanges (example counts; keys and
  // gradients of rows). What joining and cuts move is in neither. Without collective calls,
  // other_bytes_* are the part of bytes_pushed and bytes_pulled that is not dense.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t other_bytes_sent = 0;
  uint64_t other_bytes_received = 0;
  // Time that hooks of training steps and look-ups were blocked on the data plane, be it for bytes
  // under way or for slower workers. The rest of a hook's time is this process's own work.
  double exposed_seconds = 0;
};

// One partition's file of a cut.
struct CutPiece {
  uint32_t partition = 0;
  std::string path;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// How gradients become new parameters. The trainer calls the hooks around the layer units of one
// step at a time:
//
//   BeginStep(c)
//   once per micro-batch, one or more:
//     Prefetch; LookUp; BeforeForward(u) for u = 0, 1, …;
//     BeforeBackward(examples, place); [Withdraw;] GradientReady(u) for u = U-1, …, 0; PushRows
//   EndStep
//
// The gradients of a step's micro-batches add up here; nothing of them leaves before the last.
// Between BeginStep and BeforeBackward any number of forward-only passes may read parameters and
// rows (evaluation). Every hook may block until the data plane answered, and returns:
//   Aborted       another incarnation or generation took over: the task must end;
//   Unavailable   servers stayed out of reach longer than the strategy was told to wait;
//   others        as the servers refused an operation (the message names partition and clock).
// After an error only destruction is allowed. Used by one thread, the trainer's.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Opens the tables and returns the clock to go on from: the clocks this slot has closed on every
  // partition. Called once, before everything else.
  virtual absl::StatusOr<uint64_t> Start() = 0;

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

  // A micro-batch comes next whose part of the loss weighs `examples` (MicroBatch::loss_weight: its
  // labels, where an example has several), which is what the step's sum is divided by. The first
  // after BeginStep makes zeroed gradients ready (gradients() changes); those after it leave them
  // as they are, to be added to.
  virtual absl::Status BeforeBackward(uint64_t examples, MicroBatchPlace place) = 0;

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

  // Takes the consistent cut at `clock`, which this slot has closed: waits for all slots, and for
  // the files. In order of partition. Called after EndStep of clock - 1, and before the gradients
  // of a step at `clock`.
  virtual absl::StatusOr<std::vector<CutPiece>> Cut(uint64_t clock) = 0;

  // Cuts that nobody waits for; null: this strategy has whole ones alone. Lives as long as it does.
  virtual BackgroundCuts* background_cuts() { return nullptr; }

  // The cut is kept: slot 0 calls this once the coordinator has committed it, the others after Cut.
  // Where slots live without each other's state this is nothing; where replicas are all there is of
  // it, no slot goes on (or ends) before the commit, which takes as long as the coordinator does.
  virtual absl::Status CutCommitted() { return absl::OkStatus(); }

  // What the slot's loss scale is from here on, where it is found while training: cuts hold it. Set
  // before the first cut, and then by all slots.
  virtual void set_loss_scale(const LossScale& scale) = 0;
  // After Start: what was last set here, before Start; else that of the checkpoint that the slot
  // goes on from; absent: it begins anew.
  virtual absl::optional<LossScale> loss_scale() const = 0;

  // By tensor index of the model's description. Parameters are readable after BeforeForward of
  // their unit and until the next BeginStep; their spans never change. Gradients are writable
  // between BeforeBackward and GradientReady of the same micro-batch; between the last
  // GradientReady and EndStep they hold nothing in particular.
  virtual ParameterSpans parameters() const = 0;
  virtual GradientSpans gradients() const = 0;

  virtual StrategyCounters counters() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_STRATEGY_H_
