#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_places.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/nn/layer.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/servers/dense_operation.h"
#include "worker/strategy/servers/dense_residual.h"
#include "worker/strategy/servers/dense_runs.h"
#include "worker/strategy/servers/gradient_places.h"
#include "worker/strategy/servers/shard_router.h"
#include "worker/strategy/training_state.h"

namespace muster {

// A worker's dense gradients, and their way to the servers, unit by unit.
//
//   kWhole     The gradients of a step's micro-batches add up in an arena, which is not written
//              again before the transport has let go of it; the next step takes another one.
//   kInFlight  A unit has memory from BeforeWrite until the pushes of its micro-batch are answered,
//              and nobody reads them any more (GradientPlaces).
//
// Few enough pushes are unacknowledged at a time. With a wire of less than f32 they carry the
// rounding error of one step over to the next (dense_residual.h); only with kWhole. Used by one
// thread.
class DensePushes {
 public:
  struct Options {
    UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
    DType wire = DType::kF32;
    // Bound on what is pushed and not acknowledged yet, but for the pushes of one unit alone.
    uint64_t window_bytes = 0;
    // Only with kWhole: one being written, the others still being sent.
    int arenas = 1;
    // Where gradients lie; null: in memory of the process's own.
    std::shared_ptr<RegisteredMemory> registered_memory;
  };
  // All outlive it; the router may be made later, and ends earlier.
  struct Parts {
    ShardRouter& router;
    const DenseLayout& layout;
    absl::Span<const TensorSpec> tensors;
    const std::vector<std::vector<DenseRun>>& runs;
    StrategyCounters& counters;
    const Clock& clock;
  };

  DensePushes(const Parts& parts, const Options& options);

  // Makes ready for the gradients of a step. Blocks while too many steps' are being sent.
  void BeginStep();
  // Blocks until the unit's gradients may be written, tied ones included. Errors are the router's.
  absl::Status BeforeWrite(int unit);
  // Returns the gradients, by tensor index; with kWhole, those of the step.
  GradientSpans gradients() const { return gradients_; }

  // What is pushed is the part of a micro-batch in the clock's gradient, or all of it.
  struct Contribution {
    uint64_t clock = 0;
    uint32_t micro_batch = 0;
    uint64_t examples = 0;
  };
  // Sends the unit's pushes, as soon as they fit the window. Errors are the router's.
  absl::Status Push(int unit, const Contribution& contribution);
  // Takes the gradients back that are not pushed yet: what is pushed until the step ends are zeros
  // of no examples, and what the slot owes stays owed.
  void Withdraw() { withdrawn_ = true; }

  // Ends the step's pushes; the transport may go on holding their memory for a while.
  void EndStep();
  // Takes note that all pushes of the step have been answered.
  void TakeAnswers();

  // Returns what pushes have rounded away so far; null where they travel as f32.
  DenseResidual* residual() { return residual_.get(); }
  const DenseResidual* residual() const { return residual_.get(); }

 private:
  // Waits for the oldest push.
  absl::Status AwaitOldest();
  // Returns what is pushed of a run.
  Payload GradientOf(int unit, const DenseRun& run);
  uint64_t BytesOf(const DenseRun& run) const { return run.elements() * SizeOf(options_.wire); }
  // Blocks until the unit's place is free.
  absl::Status AwaitPlace(int unit);

  const Parts parts_;
  const Options options_;
  // With kInFlight; otherwise null.
  const std::unique_ptr<GradientPlaces> places_;
  ArenaPool arenas_;
  std::shared_ptr<Arena> arena_;
  std::vector<absl::Span<float>> gradients_;
  std::unique_ptr<DenseResidual> residual_;
  bool withdrawn_ = false;

  // Pushes of this step that were not waited for, in order, with their units, and their bytes.
  struct UnitPush {
    int unit = 0;
    DenseOperation push;
  };
  std::deque<UnitPush> pushes_;
  uint64_t pushed_bytes_ = 0;
  // The pushes of this task's first step, with a residual.
  bool first_step_ = true;
  std::vector<DenseOperation> first_pushes_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_
