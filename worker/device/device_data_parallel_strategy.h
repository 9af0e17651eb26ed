#ifndef MUSTER_WORKER_DEVICE_DEVICE_DATA_PARALLEL_STRATEGY_H_
#define MUSTER_WORKER_DEVICE_DEVICE_DATA_PARALLEL_STRATEGY_H_

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
#include "worker/device/device_passes.h"
#include "worker/device/device_spaces.h"
#include "worker/device/device_update.h"
#include "worker/strategy/group/kept_shard.h"
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

struct DeviceDataParallelDependencies {
  // Outlives the strategy.
  CheckpointStorage* storage = nullptr;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  MakeDeviceCommunicator make_communicator;
};

// sharded_strategy.h for replicas that live on devices: weights, gradients and Adam's moments
// never leave them while a group trains; a communicator of device memory sums gradients. Parameters
// and gradients are device memory, which only a model on passes() reads and writes. The host has a
// copy (12 bytes a parameter) only for what is not a step: without a group, where it is what the
// next one restores, takes over from another rank or sends to others, and in Cut. Its memory goes
// when Join has copied it to the device, and when Cut has written its files, so a step costs the
// host nothing. Checkpoints have the common form, so that a job goes on from them on processors,
// too, and the reverse.
//
// A step queues its hooks' work, and waits in EndStep: for the gradients' sums, where there are
// several ranks, and for the device. A failed step leaves weights and moments as they were, and the
// next group goes on from there.
class DeviceDataParallelStrategy final : public Strategy, public ReplicaGroup {
 public:
  // `options` are for the job's model; `schema` is the job's. InvalidArgument: the schema is not
  // valid, or its optimizer is not adam or adamw.
  static absl::StatusOr<std::unique_ptr<DeviceDataParallelStrategy>> Create(
      const v1::TaskOrder& order, const v1::TablesSchema& schema, const DeviceOptions& options,
      DeviceDataParallelDependencies dependencies);
  ~DeviceDataParallelStrategy() override;

  // Also errors of AwaitDevice and of the device.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  void Leave() override;
  uint64_t bucket_plan_fingerprint() const override { return fingerprint_; }
  absl::optional<uint64_t> replica_clock() const override;
  RankHolding holding() const override { return {.clock = replica_clock()}; }
  std::vector<const FlightRecorder*> recorders() const override;
  // Returns the communicator that sums gradients; null when no group is joined.
  const Communicator* communicator() const;
  TrainingState& state() override { return *this; }

  // Returns the host's replica, whose weights are empty while the host has no copy.
  const ShardState& host_copy() const { return kept_->state(); }

  // Returns the passes of the present group; null when there is none.
  DevicePasses* passes() { return passes_.get(); }

  // FailedPrecondition: no group was joined.
  absl::StatusOr<uint64_t> Start() override;
  // FailedPrecondition: the clock is not the replica's.
  absl::Status BeginStep(uint64_t clock) override;
  absl::Status Acquire(int unit, Direction direction) override { return absl::OkStatus(); }
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return spaces_->parameters(); }
  absl::Status Prefetch(const MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status LookUp(MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override;
  // BeginStep zeroes gradients that hold sums.
  Accumulation GradientStore(int unit) const override { return Accumulation::kAdd; }
  GradientSpans gradients() const override { return spaces_->gradients(); }
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
  DeviceDataParallelStrategy(const v1::TablesSchema& schema, const DeviceOptions& options,
                             DeviceDataParallelDependencies dependencies,
                             std::unique_ptr<KeptShard> kept, DeviceParameters places);

  // Gives back all that belongs to a group.
  void EndGroup();
  // Makes a copy of the device's replica on the host.
  absl::Status Download();

  const std::unique_ptr<const v1::TablesSchema> schema_;
  const DeviceOptions options_;
  const DeviceDataParallelDependencies dependencies_;
  const std::unique_ptr<KeptShard> kept_;
  const DeviceParameters places_;
  const uint64_t fingerprint_;
  // Of the replica on the device, while there is a group.
  uint64_t clock_ = 0;
  // The number of steps that moved weights since the host's last copy.
  uint64_t moved_ = 0;
  // True if nothing was added to the gradients since BeginStep zeroed them.
  bool gradients_are_zero_ = false;
  // Of the step, so far; and the last micro-batch's position.
  uint64_t examples_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // Of groups before.
  StrategyCounters counters_;

  std::unique_ptr<Communicator> host_;
  // Null in a group of one.
  std::unique_ptr<Communicator> device_;
  std::unique_ptr<DevicePasses> passes_;
  std::unique_ptr<DeviceSpaces> spaces_;
  std::unique_ptr<DeviceUpdate> update_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_DATA_PARALLEL_STRATEGY_H_
