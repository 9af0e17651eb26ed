#ifndef MUSTER_WORKER_DEVICE_DEVICE_SLICES_H_
#define MUSTER_WORKER_DEVICE_DEVICE_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/device/device.h"
#include "common/partition/stage_holding.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_options.h"
#include "worker/device/device_passes.h"
#include "worker/device/device_shard.h"
#include "worker/device/device_slice_ops.h"
#include "worker/device/device_step_exchange.h"
#include "worker/device/device_update.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/strategy/group/gradients/gradient_scatterer.h"
#include "worker/strategy/group/gradients/tied_sums.h"
#include "worker/strategy/group/gradients/unit_memory.h"
#include "worker/strategy/group/gradients/weight_gatherer.h"

namespace muster {

// One rank's slices on a device (ZeRO stages 1 to 3), as sharded_strategy.h has them on processors:
// the same layout, gathers, scatters and places of units in flight, in device memory. Weights and
// gradients lie in the memory of a communicator of the device; what is the rank's alone, in a block
// of its own.
//
// Calls lie between graphs: a pass is [graph | call | graph …], divided where a unit is gathered or
// scattered. The host waits for a unit's gather before it queues what reads the unit, while the
// device computes the unit before it.
//
// EndStep waits for all sums. Then the ranks exchange examples and, on the host, the squares of
// their sums, which the device measured: no rank steps before that exchange has shown that all sums
// are complete. Each rank decides alike, and steps its slices.
class DeviceSlices final : public DeviceShard {
 public:
  // The group's communicators. All outlive the slices.
  struct Groups {
    // All ranks, with host memory. Used within EndStep alone.
    Communicator& host;
    // The shard group. With device memory, unless the device is emulated.
    Communicator& shard_group;
    // The ranks that have the same shard, likewise. Null if there are no others.
    Communicator* replicas = nullptr;
    // The ranks of two stages that have tensors in common and the same slices of them
    // (tied_sums.h), likewise. Null if this rank has none.
    Communicator* tied = nullptr;
  };

  // The slices' part of a job's specification.
  struct Holding {
    // 1 to 3.
    uint32_t stage = 1;
    // Memory for units that stay gathered (KeptGatheredBytes).
    uint64_t kept_bytes = 0;
  };

  // Creates the slices of a state's shard; a collective call. `options.compute.shard` has their
  // extents. `state`, whose layout is read, and `passes` outlive the slices. Errors are the
  // device's and the communicators'.
  static absl::StatusOr<std::unique_ptr<DeviceSlices>> Create(const DeviceOptions& options,
                                                              const Holding& holding,
                                                              const ShardState& state,
                                                              DevicePasses& passes,
                                                              const Groups& groups);
  // Waits for the device. Waits, too, for gathers that the last step started, because other ranks
  // may still be in that step. Other calls that are under way end in Abort, for the whole group.
  ~DeviceSlices() override;

  ModelParameters parameters() const override { return copies_->parameters(); }
  GradientSpans gradients() const override { return scatterer_->gradients(); }
  absl::Status Upload(ShardState& state) override;
  absl::Status Download(ShardState& state) override;
  absl::Status BeginStep() override;
  absl::Status Acquire(int unit, Direction direction) override;
  void BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore() const override { return scatterer_->GradientStore(); }
  void GradientReady(int unit) override { scatterer_->UnitReady(unit); }
  absl::StatusOr<DeviceUpdateResult> EndStep(const DeviceStepNumbers& numbers) override;
  absl::Status AwaitCalls() override;
  void Count(StrategyCounters& counters) const override;

 private:
  DeviceSlices(const DeviceOptions& options, const Holding& holding, const ShardState& state,
               DevicePasses& passes, const Groups& groups);

  // Creates the objects that move weights and gradients; a collective call.
  absl::Status MakeExchanges();
  // Finds the places of this rank's weights.
  void PlaceWeights();
  // Returns where the device has this rank's sums, and the weights and moments to step.
  DeviceUpdateArrays UpdateArrays() const;
  bool in_flight() const { return holding_.weights == UnitPlaces::Holding::kInFlight; }
  // Starts to gather all units, in order, if they are held whole.
  void GatherAll();
  // Returns the traffic of the rank's calls on device memory.
  CollectiveTraffic traffic() const;
  // Copies weights and moments to the device or back, and waits.
  enum class Way { kToDevice, kToHost };
  absl::Status CopyState(Way way, ShardState& state);

  const DeviceOptions options_;
  const StageHolding holding_;
  const uint64_t kept_bytes_;
  const ShardedTensors sharded_;
  const absl::Span<const ShardLayout::OwnedBlock> owned_;
  const int units_;
  // The tensors with the types in which the device reads them.
  const std::vector<TensorSpec> read_;
  DevicePasses& passes_;
  const Groups groups_;

  DeviceBuffer buffer_;
  DeviceState state_;
  std::unique_ptr<DeviceSliceOps> ops_;
  std::unique_ptr<WeightGatherer> gatherer_;
  std::unique_ptr<GradientScatterer> scatterer_;
  // Null unless another stage has some of this rank's tensors, too; and the sums by tensor.
  std::unique_ptr<TiedSums> tied_sums_;
  std::vector<absl::Span<float>> tensor_sums_;
  std::unique_ptr<LowPrecisionCopies> copies_;
  std::unique_ptr<DeviceUpdate> update_;
  // By part: this rank's f32 weights, wherever they lie.
  std::vector<absl::Span<float>> weights_;
  std::vector<absl::Span<const float>> readable_weights_;

  DeviceStepExchange exchange_;
  // The number of the step's micro-batches so far, and their examples.
  int micro_batches_ = 0;
  uint64_t examples_ = 0;
  // The traffic at the last count, and what was counted.
  CollectiveTraffic last_traffic_;
  CollectiveTraffic counted_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_SLICES_H_
