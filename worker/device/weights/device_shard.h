#ifndef MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SHARD_H_
#define MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/device/device.h"
#include "common/partition/shard_layout.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/collectives/communicator.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/memory/device_parameters.h"
#include "worker/device/passes/device_passes.h"
#include "worker/device/weights/device_slice_ops.h"
#include "worker/device/weights/device_spaces.h"
#include "worker/device/weights/device_update.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/shard_place.h"
#include "worker/strategy/group/sharded_strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
class TaskOrder;
}  // namespace v1

// A rank's shard on a device, of any ZeRO stage: all parameters in flat spaces (device_spaces.h),
// or its slices, with weights and gradients in the memory of a communicator of the device and the
// rest in a block of its own. Only a model on passes() reads and writes parameters and gradients.
//
// Calls of tensor ranks lie between graphs (DevicePasses::MakeCall), and so do those of units: a
// pass is [graph | call | graph …], divided where a unit is gathered or scattered. The host waits
// for a unit's gather before it queues what reads the unit, while the device computes the unit
// before it.
//
// Ranks exchange the squares of their sums, which the device has measured, unless one group sums
// all there is. From these each device decides alike (device_update.h). Failure cases, and what
// ranks do:
//
//   a message or sum fails                the step is not made on any rank: all exchange squares
//                                         after their sums, and before they step
//   gradients overflow on one rank        the squares are not finite on any rank, so all leave the
//                                         step out, or end as diverged
//   the loss alone is not finite          the last stage ends as diverged after the step
//   initial values differ by machine      stages that have a tensor in common take the first one's
//   a rank is lost, dies, or is late      the group ends with weights and moments as they were; in
//                                         the next one a rank that is behind, and a new one, take
//                                         their shards from replicas, if there are any
//   a group of another division meets     FailedPrecondition in Join, by RankGroups
class DeviceShard final : public ShardPlace {
 public:
  // Creates the place of a job's model. InvalidArgument: the schema's optimizer is not adam or
  // adamw, or its tensors cannot be laid out.
  static absl::StatusOr<std::unique_ptr<DeviceShard>> Create(const v1::TaskOrder& order,
                                                             const v1::TablesSchema& schema,
                                                             const DeviceOptions& options,
                                                             MakeDeviceCommunicator make,
                                                             KeptShard& kept);

  // Returns the passes of the present group; null when there is none.
  DevicePasses* passes() { return passes_.get(); }

  bool on_host() const override { return false; }
  absl::StatusOr<std::vector<GradientBucket>> PlanBuckets(
      const DenseLayout& layout, absl::Span<const TensorSpec> tensors) const override;
  // Waits for the device. Errors are also AwaitDevice's.
  absl::Status Enter(RankGroups& groups) override;
  void Stop() override;
  void Leave() override;
  SliceOps& ops() override { return *ops_; }
  // A failure is the passes'.
  absl::Status MakeCall(Communicator& group, const CollectiveCall& call) override;
  std::vector<std::shared_ptr<Work>> StartCalls(Communicator& group,
                                                absl::Span<const CollectiveCall> calls) override;
  void Exchange(std::function<void()> exchange) override;
  absl::Status Read(const void* from, size_t bytes, void* to) override;
  Replica replica() override;
  absl::Span<float> sums() override;
  void PlaceWeights(absl::Span<float* const> places) override;
  absl::Span<const absl::Span<const float>> slices() const override { return readable_weights_; }
  std::unique_ptr<LowPrecisionCopies> MakeCopies(absl::Span<const TensorSpec> tensors,
                                                 const ModelParameters& held) override;
  absl::Status Fill(absl::Span<const absl::Span<float>> sums) override;
  absl::Status TakeBack() override;
  void HandOver() override { kept_.HandOver(); }
  void ZeroGradients() override { spaces_->ZeroGradients(passes_->stream()); }
  absl::Status status() const override { return passes_->status(); }
  absl::Status EndPasses() override;
  StepAgreement::Extent extent() const override;
  size_t cells(int shard) const override { return extent() == StepAgreement::Extent::kAll ? 1 : 0; }
  int Unscale(GradientSpans sums, Check check) override { return -1; }
  absl::StatusOr<absl::Span<const double>> Measure(const GradientSums& sums, size_t cells) override;
  absl::Status Decide(const GradientSums& sums, StepOutcome& outcome) override;
  void Apply(const GradientSums& sums, const StepOutcome& outcome) override;

 private:
  DeviceShard(const v1::JobSpec& spec, const v1::TablesSchema& schema, const DeviceOptions& options,
              DeviceParameters places, MakeDeviceCommunicator make, KeptShard& kept);

  // Says what the rank has on the device of its present shard, if ranks divide the parameters.
  absl::Status PlanShard();
  bool divides() const { return options_.compute.shard.has_value(); }
  absl::Status MoveGroups(RankGroups& groups);
  const DeviceState& memory() const { return spaces_->state(); }
  // Returns where the device has `elements` of a flat space, or of a slice of the rank.
  DeviceUpdateArrays::Stretch StretchAt(uint64_t begin, uint64_t elements) const;
  DeviceUpdateArrays::Stretch StretchOf(const ShardLayout::OwnedBlock& owned) const;
  // Calls `copy` for all values of a state in the host's memory, and where the device has them.
  void ForEachSpan(ShardState& state,
                   absl::FunctionRef<void(absl::Span<float> host, float* device)> copy) const;
  // Returns what steps read and write, given the sums of slices by part.
  DeviceUpdateArrays ArraysOf(absl::Span<const absl::Span<float>> sums) const;

  const std::unique_ptr<const v1::JobSpec> spec_;
  const std::unique_ptr<const v1::TablesSchema> schema_;
  // The shard in it is that of the present group.
  DeviceOptions options_;
  const DeviceParameters places_;
  const MakeDeviceCommunicator make_;
  KeptShard& kept_;

  std::unique_ptr<DevicePasses> passes_;
  std::unique_ptr<DeviceSliceOps> ops_;
  std::unique_ptr<DeviceSpaces> spaces_;
  // By part: this rank's f32 weights, wherever they lie.
  std::vector<absl::Span<float>> weights_;
  std::vector<absl::Span<const float>> readable_weights_;
  std::unique_ptr<DeviceUpdate> update_;
  // The sum of squares of this rank's sums.
  double squares_ = 0;
};

// A rank's strategy with its shard on a device.
struct DeviceStrategy {
  std::unique_ptr<ShardedStrategy> strategy;
  // The strategy's.
  DeviceShard* shard = nullptr;

  ShardedStrategy& operator*() const { return *strategy; }
  ShardedStrategy* operator->() const { return strategy.get(); }
  DevicePasses* passes() const { return shard->passes(); }
};

// Makes both. `options` are for the job's model; those of the strategy follow from them. Errors are
// those of both.
absl::StatusOr<DeviceStrategy> MakeDeviceStrategy(const v1::TaskOrder& order,
                                                  const v1::TablesSchema& schema,
                                                  const DeviceOptions& options,
                                                  const MakeDeviceCommunicator& make,
                                                  ShardedDependencies dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SHARD_H_
