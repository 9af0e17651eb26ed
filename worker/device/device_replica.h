#ifndef MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_
#define MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"
#include "worker/device/device_passes.h"
#include "worker/device/device_shard.h"
#include "worker/device/device_slice_ops.h"
#include "worker/device/device_spaces.h"
#include "worker/device/device_step_exchange.h"
#include "worker/device/device_update.h"
#include "worker/strategy/group/gradients/gradient_reducer.h"
#include "worker/strategy/group/gradients/tied_sums.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// A full replica on a device (ZeRO stage 0): weights, gradients and moments of all parameters.
// Gradients are summed over the ranks bucket by bucket; then every rank takes the same step. Of
// several tensor ranks or stages, each has all of its shares, and the ranks exchange
// the squares of their sums before the step (device_step_exchange.h).
class DeviceReplica final : public DeviceShard {
 public:
  // The group's communicators. Both outlive the replica.
  struct Group {
    // All ranks, with host memory. Sums examples, which a rank knows before backward has ended.
    // Nobody else makes calls on it between the last BeforeBackward and EndStep.
    Communicator& host;
    // Sums gradients over the ranks with the same tensor rank and stage. Of device memory unless
    // the device is emulated. Null if there are no others.
    Communicator* device = nullptr;
    // The ranks of two stages that have tensors in common (tied_sums.h), likewise. Null if this
    // rank has none.
    Communicator* tied = nullptr;
    MeshPosition shard = {};
  };

  // Creates the replica; a collective call. `passes` outlive it. Errors are the device's and the
  // communicators'.
  static absl::StatusOr<std::unique_ptr<DeviceReplica>> Create(const DeviceOptions& options,
                                                               DeviceParameters parameters,
                                                               DevicePasses& passes,
                                                               const Group& group);
  // Waits for the device. Calls that are under way end in Abort, for the whole group.
  ~DeviceReplica() override;

  ModelParameters parameters() const override { return spaces_->parameters(); }
  GradientSpans gradients() const override { return spaces_->gradients(); }
  absl::Status Upload(ShardState& state) override;
  absl::Status Download(ShardState& state) override;
  absl::Status BeginStep() override;
  absl::Status Acquire(int unit, Direction direction) override { return absl::OkStatus(); }
  void BeforeBackward(uint64_t examples, SeriesPosition position) override;
  // BeginStep zeroes gradients that hold sums.
  Accumulation GradientStore() const override { return Accumulation::kAdd; }
  void GradientReady(int unit) override;
  absl::StatusOr<DeviceUpdateResult> EndStep(const DeviceStepNumbers& numbers) override;
  absl::Status AwaitCalls() override { return absl::OkStatus(); }
  void Count(StrategyCounters& counters) const override;

 private:
  DeviceReplica(const DeviceOptions& options, DevicePasses& passes, const Group& group);

  // Starts to sum this rank's examples of the whole step over the ranks.
  void SumExamples();
  // Waits for the sums over the ranks.
  absl::Status AwaitSums();

  const DeviceOptions options_;
  DevicePasses& passes_;
  const Group group_;
  std::unique_ptr<DeviceSpaces> spaces_;
  std::unique_ptr<DeviceUpdate> update_;
  // Null for a rank alone.
  std::unique_ptr<DeviceSliceOps> order_;
  std::unique_ptr<GradientReducer> reducer_;
  // Null unless another stage has some of this rank's tensors, too.
  std::unique_ptr<TiedSums> tied_sums_;
  // Null unless there are several tensor ranks or stages.
  std::unique_ptr<DeviceStepExchange> exchange_;
  // True if nothing was added to the gradients since BeginStep zeroed them.
  bool gradients_are_zero_ = false;
  // The step's examples: this rank's so far, then, if they are summed apart, all ranks'; and the
  // last micro-batch's position.
  double examples_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // The call that sums examples_; null: none is under way.
  std::shared_ptr<Work> examples_sum_;
  // The traffic of the host's communicator before that call, and of these calls so far.
  CollectiveTraffic traffic_before_;
  CollectiveTraffic examples_traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_
