#ifndef MUSTER_WORKER_DEVICE_DEVICE_SHARDED_STRATEGY_H_
#define MUSTER_WORKER_DEVICE_DEVICE_SHARDED_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/checkpoint/storage.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"
#include "worker/device/device_passes.h"
#include "worker/device/device_shard.h"
#include "worker/device/device_slice_ops.h"
#include "worker/device/device_slices.h"
#include "worker/nn/tensor_group.h"
#include "worker/parallel/communicator_tensor_group.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/gradients/shared_gradients.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/replica_group.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// Makes the communicator of device memory that goes with one of host memory, of the same ranks;
// called by all of them. `host` may be used for other things before and after. Errors: the
// backend's.
using MakeDeviceCommunicator =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Communicator& host)>;

struct DeviceShardedDependencies {
  // Outlives the strategy.
  CheckpointStorage* storage = nullptr;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  MakeDeviceCommunicator make_communicator;
};

// sharded_strategy.h for shards that live on devices, of any ZeRO stage: weights, gradients and
// Adam's moments never leave them while a group trains; communicators of device memory sum
// gradients and gather weights (device_shard.h). Parameters and gradients are device memory, which
// only a model on passes() reads and writes. The host has a copy (12 bytes for each parameter of
// the shard) only for what is not a step: without a group, where it is what the next one restores
// or, with one shard, takes over from another rank or sends to others, and in Cut. Its memory goes
// when Join has copied it to the device, and when Cut has written its files, so a step costs the
// host nothing. Checkpoints have the common form, so that a job goes on from them on processors,
// with any number of ranks and any stage, and the reverse.
//
// A step queues its hooks' work, and waits in EndStep: for the gradients' sums, where there are
// several ranks, and for the device. Where weights are gathered, Acquire waits for them, too. A
// failed step leaves weights and moments as they were, and the next group goes on from there. With
// several shards or tensor ranks, a job that loses a rank goes back to its last checkpoint.
//
// Of several tensor ranks, each has its share of the tensors. Their calls within passes lie between
// graphs (DevicePasses::MakeCall); gradients of elements that they share are summed on the device
// before anything else reads them (shared_gradients.h).
//
// Each of several stages of a pipeline has the tensors of its units, and a communicator of device
// memory for messages between stages (stage_group). Gradients of tensors that two stages have
// are summed over both in EndStep, before anything is measured (tied_sums.h). These are failure
// cases, and what ranks do:
//
//   a message or sum of stages fails      the step is not made on any rank: all exchange squares
//                                         after their sums, and before they step
//   gradients overflow on one stage       the exchanged squares are not finite on any rank, so all
//                                         leave the step out, or end as diverged
//   the loss alone is not finite          the last stage ends as diverged after the step
//   initial values differ by machine      stages that have a tensor in common take the first one's
//   a rank is lost, dies, or is late      the job goes back to its last checkpoint (LossIsFinal)
//   a group of another division meets     FailedPrecondition in Join, by RankGroups
class DeviceShardedStrategy final : public Strategy, public ReplicaGroup {
 public:
  // `options` are for the job's model; `schema` is the job's, whose spec says stage and shard
  // groups (common/mesh/job_mesh.h). InvalidArgument: the schema is not valid, or its optimizer is
  // not adam or adamw.
  static absl::StatusOr<std::unique_ptr<DeviceShardedStrategy>> Create(
      const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceOptions& options,
      DeviceShardedDependencies dependencies);
  ~DeviceShardedStrategy() override;

  // Also errors of AwaitDevice and of the device. Ignores `source` with several shards, tensor
  // ranks or stages.
  // FailedPrecondition: the rank's shard is not its slot's, or a shard group is not whole.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  void Forget() override { kept_->HandOver(); }
  void Leave() override;
  uint64_t bucket_plan_fingerprint() const override { return fingerprint_; }
  absl::optional<uint64_t> replica_clock() const override;
  RankHolding holding() const override { return {.clock = replica_clock()}; }
  std::vector<const FlightRecorder*> recorders() const override;
  // Returns the communicator that sums the gradients of the rank's shard group, or with one shard
  // of all ranks; null when no group is joined.
  const Communicator* communicator() const;
  TrainingState& state() override { return *this; }

  // Returns the host's shard, whose weights are empty while the host has no copy.
  const ShardState& host_copy() const { return kept_->state(); }

  // Returns the passes of the present group; null when there is none.
  DevicePasses* passes() { return passes_.get(); }

  // Returns the ranks that compute the model together with this one; null when there are none or no
  // group is joined. Lives until Leave.
  TensorGroup* tensor_group() { return tensor_group_.get(); }
  // Returns the communicator of device memory for messages between the stages of a pipeline; null
  // when there is one stage or no group is joined. Lives until Leave.
  Communicator* stage_group() { return device_stages_.get(); }

  // FailedPrecondition: no group was joined.
  absl::StatusOr<uint64_t> Start() override;
  // FailedPrecondition: the clock is not the replica's.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override {
    return shard_->Acquire(unit, direction);
  }
  void Release(int unit, Direction direction) override {}
  // Returns the parameters. Under stages 1 to 3, tensors that are gathered in 16 bits have no f32
  // values.
  ModelParameters parameters() const override { return shard_->parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status LookUp(MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  Accumulation GradientStore(int unit) const override { return shard_->GradientStore(); }
  GradientSpans gradients() const override { return shard_->gradients(); }
  float loss_scale() const override { return kept_->loss_scaling().scale(); }
  absl::Status GradientReady(int unit) override;
  absl::Status PushRows(MicroBatch& micro_batch) override { return absl::OkStatus(); }
  // OutOfRange, on all ranks: the gradient's norm is not finite, and there is no smaller loss
  // scale.
  absl::Status EndStep() override;
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override;
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override;
  const LossScaler* loss_scaler() const override { return kept_->loss_scaling().scaler(); }
  StrategyCounters counters() const override;

 private:
  DeviceShardedStrategy(const DeviceSlices::Holding& divided, const v1::TablesSchema& schema,
                        const DeviceOptions& options, DeviceShardedDependencies dependencies,
                        std::unique_ptr<KeptShard> kept, DeviceParameters places,
                        uint64_t fingerprint);

  // Makes the communicators of device memory; a collective call.
  absl::Status MakeCommunicators();
  // Makes what the tensor group's ranks need of one another; a collective call.
  absl::Status MakeTensorGroup();
  // Makes what the rank has on its device, and fills it; a collective call.
  absl::Status MakeShard();

  // Gives back what a group has on the device but for its communicators, and all of it.
  void EndPasses();
  void EndGroup();
  // Makes a copy of the device's shard on the host.
  absl::Status Download();
  // Returns the traffic among tensor ranks, and among stages.
  CollectiveTraffic TensorTraffic() const;
  CollectiveTraffic StageTraffic() const;

  // With stage 0 nothing is divided.
  const DeviceSlices::Holding divided_;
  const std::unique_ptr<const v1::TablesSchema> schema_;
  const DeviceOptions options_;
  const DeviceShardedDependencies dependencies_;
  const std::unique_ptr<KeptShard> kept_;
  const DeviceParameters places_;
  const uint64_t fingerprint_;
  // The clock of the shard on the device, while there is a group.
  uint64_t clock_ = 0;
  // The number of steps that moved weights since the host's last copy.
  uint64_t moved_ = 0;
  // The position of the last micro-batch that BeforeBackward saw.
  SeriesPosition position_ = SeriesPosition::kLast;
  // Counters of groups before, except that those of tensor ranks and stages are of this one, too;
  // and the traffic among these at the step's beginning.
  StrategyCounters counters_;
  CollectiveTraffic tensor_counted_;
  CollectiveTraffic stage_counted_;

  std::unique_ptr<RankGroups> groups_;
  // Communicators of device memory: the shard group, or without a ZeRO stage the data group; the
  // shard's replicas; the tensor group; the stage group, and the stages with tensors in common.
  // Null in place of groups of one, unless it is the shard group.
  std::unique_ptr<Communicator> device_;
  std::unique_ptr<Communicator> device_replicas_;
  std::unique_ptr<Communicator> device_tensor_;
  std::unique_ptr<Communicator> device_stages_;
  std::unique_ptr<Communicator> device_tied_;
  std::unique_ptr<DevicePasses> passes_;
  // Null unless there are several tensor ranks.
  std::unique_ptr<CommunicatorTensorGroup> tensor_group_;
  std::unique_ptr<DeviceSliceOps> slice_ops_;
  std::unique_ptr<SharedGradients> shared_gradients_;
  std::unique_ptr<DeviceShard> shard_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_SHARDED_STRATEGY_H_
