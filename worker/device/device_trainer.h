#ifndef MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/device/matmul/device_matmul.h"
#include "common/plan/device_memory_layout.h"
#include "worker/collectives/communicator.h"
#include "worker/data/batch.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"
#include "worker/device/device_passes.h"
#include "worker/device/device_spaces.h"
#include "worker/device/device_update.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/model.h"
#include "worker/strategy/series_position.h"

namespace muster {

// What one step did, over all ranks.
struct DeviceStepResult {
  // Of the step's tokens with a label: the loss in nats, and how many were predicted right.
  double loss_sum = 0;
  int64_t tokens = 0;
  int64_t correct = 0;
  // Of the mean gradient, before clipping; not finite where the step was skipped for that.
  double gradient_norm = 0;
  // Nothing was changed: gradients overflowed 16 bits, and the loss is scaled by less from now on;
  // or no token has a label.
  bool skipped = false;
};

// Trains a transformer on one device, or on the devices of a group of ranks, each a whole replica
// (data parallel): forward, backward, the sum of gradients over ranks, clipping by global norm, and
// AdamW, all in device memory that is planned before the first step. The weights, their names and
// shapes are worker/nn/transformer/transformer_tensors.h's.
//
//   BeginStep(clock); AddMicroBatch(…, kMoreFollow) …; AddMicroBatch(…, kLast);
//   EndStep(learning_rate)
//
// Within a micro-batch the host only queues: batches are staged in pinned memory, sums stay on the
// device, and the whole of forward and backward is one graph, captured once for each extents (in
// the last micro-batch of a group's step one graph for each segment, which end where buckets go).
// What EndStep does to the weights is a graph, too. A step allocates nothing, and the host waits
// once, in EndStep, for the sums and the norm; and in AddMicroBatch where it is four batches ahead.
// Gradients are sums over the step's tokens, in f32, divided once by the number of tokens of all
// micro-batches and ranks.
//
// Every rank sees the same sums, so that ranks step, or skip a step, alike. After an error of a
// collective call in EndStep, weights and moments are as they were before the step; the caller
// makes another group, and ranks share one state (ShareState).
//
// Used by one thread.
class DeviceTrainer {
 public:
  // Allocates everything. `communicator`, of device memory unless the device is emulated, outlives
  // the trainer; null: alone. Weights are 0 until they are written.
  //   others             AwaitDevice's
  static absl::StatusOr<std::unique_ptr<DeviceTrainer>> Create(const DeviceTrainerOptions& options,
                                                               Communicator* communicator);

  const DeviceParameters& parameters() const { return spaces_->places(); }
  const DeviceMemoryBytes& memory() const { return bytes_; }
  std::vector<MatmulChoice> products() const { return passes_->products(); }
  // Null but in f16. Must be alike on all ranks, whose gradients are added as they are scaled.
  LossScaler* loss_scaler() { return loss_scaler_.has_value() ? &*loss_scaler_ : nullptr; }
  // 1 but in f16.
  float loss_scale() const { return loss_scaler_.has_value() ? loss_scaler_->scale() : 1; }
  size_t extents_with_graphs() const { return passes_->extents_with_graphs(); }
  // Of what the communicator moved, what was not gradients.
  CollectiveTraffic sums_traffic() const { return update_->sums_traffic(); }
  // Steps that moved weights: Adam's bias correction.
  uint64_t steps() const { return steps_; }
  void set_steps(uint64_t steps) { steps_ = steps; }

  // One tensor's values, [elements], from or to the host. Wait for the device. Gradients are sums,
  // without the loss scale: after the last micro-batch this rank's, after EndStep all ranks'.
  // REQUIRES: a tensor that is not tied.
  absl::Status Read(DeviceSpace space, int tensor, absl::Span<float> values);
  absl::Status Write(DeviceSpace space, int tensor, absl::Span<const float> values);

  // The first values that every worker and server gives the tensors for this seed.
  absl::Status WriteInitialValues(uint64_t seed);

  // A collective call between steps: all ranks take over one rank's weights, moments and step
  // count. The loss scale starts from its beginning.
  absl::Status ShareState(int root);

  // Measures which algorithm each matrix product of the largest micro-batch runs by, and captures
  // its graphs. Leaves weights and moments alone, not gradients. Not collective. Without it both
  // happens in the first step (where nothing is measured).
  absl::Status WarmUp();

  // Zeroes gradients and sums.
  absl::Status BeginStep(uint64_t clock);

  // Forward and backward of a batch: sequences of equal length, at most the options' extents; no
  // sequences are fine. first_example is the place of the first one in the step's batch over all
  // ranks. Returns when it is queued. InvalidArgument: the batch does not fit; says what.
  absl::Status AddMicroBatch(const Batch& batch, uint64_t first_example, SeriesPosition position);

  // Sums gradients over ranks, and moves the weights. OutOfRange: the gradient's norm is not finite
  // and no smaller loss scale is to be had: training has diverged; nothing was changed.
  absl::StatusOr<DeviceStepResult> EndStep(float learning_rate);

  // Instead of EndStep, without a communicator: waits for this rank's gradients, which may then be
  // read; moves no weights. `skipped`: they are of no use.
  // OutOfRange as EndStep says.
  absl::StatusOr<DeviceStepResult> TakeGradients();

  // Sums of the loss without dropout, gradients or other ranks. Waits.
  absl::StatusOr<DeviceStepResult> Evaluate(const Batch& batch);

 private:
  DeviceTrainer(const DeviceTrainerOptions& options, std::unique_ptr<DevicePasses> passes,
                std::unique_ptr<DeviceSpaces> spaces, std::unique_ptr<DeviceUpdate> update);

  // Forward and backward of a batch; `ready` after the last of each unit's gradients.
  absl::Status RunMicroBatch(const Batch& batch, uint64_t first_example,
                             absl::FunctionRef<void(int unit)> ready);
  absl::StatusOr<DeviceStepResult> ResultOf(const DeviceUpdateResult& update);

  const DeviceTrainerOptions options_;
  DeviceMemoryBytes bytes_;
  const std::unique_ptr<DevicePasses> passes_;
  const std::unique_ptr<DeviceSpaces> spaces_;
  const std::unique_ptr<DeviceUpdate> update_;
  const std::unique_ptr<const Model> model_;
  const std::unique_ptr<MicroBatch> micro_batch_;

  // In f16 alone.
  absl::optional<LossScaler> loss_scaler_;
  // What gradients are scaled by.
  float loss_scale_of_step_ = 1;
  uint64_t steps_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_
