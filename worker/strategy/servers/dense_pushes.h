#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// A worker's dense gradients, which are pushed to the servers unit by unit.
//
//   kWhole     The gradients of a step's micro-batches add up in an arena. The arena is not written
//              again before the transport has let go of it; the next step takes another one.
//   kInFlight  A unit has memory from BeforeWrite until the pushes of its micro-batch are answered
//              and nobody reads the gradients any more (GradientPlaces).
//
// A window bounds the bytes of unacknowledged pushes. If the wire's type is smaller than f32,
// pushes carry the rounding error of one step over to the next (dense_residual.h); only with
// kWhole. Used by one thread.
class DensePushes {
 public:
  struct Options {
    UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
    DType wire = DType::kF32;
    // The most bytes that are pushed and not acknowledged yet; one unit alone may have more.
    uint64_t window_bytes = 0;
    // The number of arenas: one is written while the others are being sent. Only with kWhole.
    int arenas = 1;
    // The memory of the gradients; null: the process's own memory.
    std::shared_ptr<RegisteredMemory> registered_memory;
  };
  // What the pushes work with. All outlive this object, except that the router may be made later
  // and end earlier.
  struct Parts {
    ShardRouter& router;
    // These are of what is trained (DenseLayout::Trained); `runs` may have more.
    const DenseLayout& layout;
    absl::Span<const TensorSpec> tensors;
    const std::vector<std::vector<DenseRun>>& runs;
    StrategyCounters& counters;
    const Clock& clock;
  };

  DensePushes(const Parts& parts, const Options& options);

  // Prepares for the gradients of a step. Blocks while too many steps' gradients are being sent.
  void BeginStep();
  // Blocks until the unit's gradients, tied ones included, may be written. Errors are the router's.
  absl::Status BeforeWrite(int unit);
  // Returns the gradients by tensor index; with kWhole, the step's sums.
  GradientSpans gradients() const { return gradients_; }

  // A push's contribution to the clock's gradient: one micro-batch's part, or all of it.
  struct Contribution {
    uint64_t clock = 0;
    uint32_t micro_batch = 0;
    uint64_t examples = 0;
    // The unit has no gradient in this step; its pushes say so, and carry none.
    bool absent = false;
  };
  // Sends the unit's pushes, of what no lower tensor rank pushes, as soon as they fit the window.
  // Errors are the router's.
  absl::Status Push(int unit, const Contribution& contribution);
  // Withdraws the gradients that are not pushed yet: until the step ends, pushes are zeros of no
  // examples, and the residual stays as it is.
  void Withdraw() { withdrawn_ = true; }

  // Ends the step's pushes; the transport may go on holding their memory for a while.
  void EndStep();
  // Waits until all pushes of the step are in. Errors are the router's.
  absl::Status AwaitAll();
  // Notes that all pushes of the step have been answered.
  void TakeAnswers();

  // Returns the rounding error of the pushes so far; null if they travel as f32.
  DenseResidual* residual() { return residual_.get(); }
  const DenseResidual* residual() const { return residual_.get(); }

 private:
  // Waits for the oldest push.
  absl::Status AwaitOldest();
  // Returns the payload of a run's push.
  Payload GradientOf(int unit, const DenseRun& run);
  DType TypeOf(const DenseRun& run) const {
    return run.pushed_as_f32 ? DType::kF32 : options_.wire;
  }
  uint64_t BytesOf(const DenseRun& run) const { return run.elements() * SizeOf(TypeOf(run)); }
  // Blocks until the unit's place is free.
  absl::Status AwaitPlace(int unit);

  const Parts parts_;
  const Options options_;
  // The gradients' places. Null unless kInFlight.
  const std::unique_ptr<GradientPlaces> places_;
  ArenaPool arenas_;
  std::shared_ptr<Arena> arena_;
  std::vector<absl::Span<float>> gradients_;
  std::unique_ptr<DenseResidual> residual_;
  bool withdrawn_ = false;

  // The pushes of this step that were not waited for, in order, each with its unit and bytes.
  struct UnitPush {
    int unit = 0;
    DenseOperation push;
  };
  std::deque<UnitPush> pushes_;
  uint64_t pushed_bytes_ = 0;
  // The pushes of this task's first step. Only with a residual.
  bool first_step_ = true;
  std::vector<DenseOperation> first_pushes_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PUSHES_H_
