#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PULLS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PULLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/partition/unit_pulls.h"
#include "common/step/action.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/servers/dense_operation.h"
#include "worker/strategy/servers/dense_runs.h"
#include "worker/strategy/servers/pulled_parameters.h"
#include "worker/strategy/servers/served_loss_scale.h"
#include "worker/strategy/servers/shard_router.h"
#include "worker/strategy/training_state.h"

namespace muster {

// A worker's dense parameters, pulled unit by unit ahead of their use.
//
//   kWhole     Each unit is pulled once per clock. Begin sends the first pulls, from the first unit
//              with parameters on; Acquire(u) sends those of unit u + 1, and of later units within
//              the window.
//   kInFlight  A unit has memory while it is in use or next in the direction (UnitGathers). It is
//              pulled again if another unit has had its place since. All pulls read one version,
//              because a synchronous clock does not end before this slot has closed it.
//
// Acquire waits for the unit's parameters and for those that they are tied to. Parameters that are
// computed with only in 16 bits are pulled in 16 bits; those that are read in f32, too, are rounded
// here. Used by one thread.
class DensePulls {
 public:
  struct Options {
    UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
    // The type in which parameters travel; f32: each in the type that it is kept in.
    DType wire = DType::kF32;
    // The most bytes that are asked for and not waited for yet, apart from the unit that is due and
    // the next one. Only with kWhole.
    uint64_t window_bytes = 0;
    // The memory of the parameters; null: the process's own memory.
    std::shared_ptr<RegisteredMemory> registered_memory;
  };
  // What the pulls work with. All outlive this object, except that the router may be made later and
  // end earlier.
  struct Parts {
    ShardRouter& router;
    const DenseLayout& layout;
    absl::Span<const TensorSpec> tensors;
    const std::vector<std::vector<DenseRun>>& runs;
    ServedLossScale& loss_scale;
    StrategyCounters& counters;
    const Clock& clock;
  };

  DensePulls(const Parts& parts, const Options& options);

  // Starts to pull the parameters of a clock. Errors here and below are the router's.
  absl::Status Begin(uint64_t clock);
  // Waits for the parameters of the first unit that has any here.
  absl::Status AwaitFirst();
  // Acquires a unit (Strategy::Acquire).
  absl::Status Acquire(int unit, Direction direction);
  // Returns the parameters by tensor index; those of acquired units are readable.
  ModelParameters parameters() const { return copies_.parameters(); }

  // Returns whether all units have arrived since Begin. Only with kWhole.
  bool all_came() const;
  // Returns the least clock of the slowest slot in the answers since Begin; the largest number if
  // there was no answer.
  uint64_t slowest() const { return slowest_; }

 private:
  // Waits for an answer, and counts the time.
  absl::Status Await(const ShardRouter::Handle& operation);
  // Waits for the unit's own parameters.
  absl::Status AwaitUnit(int unit);
  // Sends the unit's pulls. With kWhole, frozen parameters are pulled once.
  void Ask(int unit);
  // Sends the pulls of units before `end` that were not sent yet.
  void AskBefore(int end);
  // Sends the pulls of these units, once no other pull into their places is under way.
  absl::Status AskInFlight(absl::Span<const int> units);
  // Returns the bytes that each unit pulls in every clock.
  std::vector<uint64_t> UnitBytes() const;
  DType TypeOf(const DenseRun& run) const;
  uint64_t BytesOf(const DenseRun& run) const { return run.elements() * SizeOf(TypeOf(run)); }
  // Returns the memory that the run's answer can be received into directly, if it travels in the
  // type that it is kept in; otherwise an empty span.
  absl::Span<std::byte> LandingOf(const DenseRun& run);

  const Parts parts_;
  const Options options_;
  const int units_;
  PulledParameters pulled_;
  LowPrecisionCopies copies_;
  // Say which unit is where since Begin, with kInFlight, and with kWhole when which is pulled.
  UnitGathers gathers_;
  UnitPulls order_;

  uint64_t clock_ = 0;
  // By unit, the pulls that were sent and not waited for; and, with kWhole, the first unit whose
  // pulls were not sent yet.
  std::vector<std::vector<DenseOperation>> pulls_;
  int next_unit_ = 0;
  // Says by unit whether its frozen parameters were pulled.
  std::vector<bool> has_frozen_;
  uint64_t slowest_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_PULLS_H_
