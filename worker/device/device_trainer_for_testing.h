#ifndef MUSTER_WORKER_DEVICE_DEVICE_TRAINER_FOR_TESTING_H_
#define MUSTER_WORKER_DEVICE_DEVICE_TRAINER_FOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
#include "worker/nn/model.h"
#include "worker/strategy/series_position.h"

namespace muster {

// The result of a step, or of a pass.
struct DeviceStepResult {
  // This rank's: the loss in nats over the tokens with a label, and how many were predicted right.
  double loss_sum = 0;
  int64_t correct = 0;
  // Tokens with a label, of all ranks.
  int64_t tokens = 0;
  // Of the mean gradient, before clipping; not finite where the step was skipped for that.
  double gradient_norm = 0;
  // Nothing was changed: gradients overflowed 16 bits, and the loss must be scaled by less; or no
  // token has a label.
  bool skipped = false;
};

// The parts of training on a device without a job around them: the model on its backend, parameters
// in device memory, and the end of steps, as DeviceDataParallelStrategy puts them together.
//
//   BeginStep(clock); AddMicroBatch(…, kMoreFollow) …; AddMicroBatch(…, kLast);
//   EndStep(learning_rate)
class DeviceTrainer {
 public:
  // Allocates everything. `communicator`, of device memory unless the device is emulated, outlives
  // the trainer; null: alone. Weights are 0 until they are written.
  // Errors are AwaitDevice's, and the device's.
  static absl::StatusOr<std::unique_ptr<DeviceTrainer>> Create(const DeviceTrainerOptions& options,
                                                               Communicator* communicator);

  const DeviceParameters& parameters() const { return spaces_->places(); }
  const DeviceMemoryBytes& memory() const { return bytes_; }
  std::vector<MatmulChoice> products() const { return passes_->products(); }
  // Of f16 alone, otherwise 1: what the loss of the next step is multiplied by before backward.
  // Must be alike on all ranks, whose gradients are added as they are scaled.
  float loss_scale() const { return loss_scale_; }
  void set_loss_scale(float scale) { loss_scale_ = scale; }
  size_t extents_with_graphs() const { return passes_->extents_with_graphs(); }
  // Of what the communicator moved, what was not gradients.
  CollectiveTraffic sums_traffic() const { return update_->sums_traffic(); }
  // Steps that moved weights: Adam's bias correction.
  uint64_t steps() const { return steps_; }

  // One tensor's values, [elements], from or to the host. Wait for the device. Gradients are sums,
  // times the loss scale: after the last micro-batch this rank's, after EndStep all ranks'.
  // REQUIRES: a tensor that is not tied.
  absl::Status Read(DeviceSpace space, int tensor, absl::Span<float> values);
  absl::Status Write(DeviceSpace space, int tensor, absl::Span<const float> values);

  // The first values that every worker and server gives the tensors for this seed.
  absl::Status WriteInitialValues(uint64_t seed);

  // See warm_up.h.
  absl::Status WarmUp();

  // Zeroes gradients.
  absl::Status BeginStep(uint64_t clock);

  // Forward and backward of a batch: sequences of equal length, at most the options' extents; no
  // sequences are fine. first_example is the place of the first one in the step's batch over all
  // ranks. Returns when it is queued. InvalidArgument: the batch does not fit; says what.
  absl::Status AddMicroBatch(const Batch& batch, uint64_t first_example, SeriesPosition position);

  // Sums gradients over ranks, and moves the weights. OutOfRange: the gradient's norm is not finite
  // and the loss not scaled: training has diverged; nothing was changed.
  absl::StatusOr<DeviceStepResult> EndStep(float learning_rate);

  // Sums of the loss without dropout, gradients or other ranks. Waits.
  absl::StatusOr<DeviceStepResult> Evaluate(const Batch& batch);

 private:
  DeviceTrainer(const DeviceTrainerOptions& options, std::unique_ptr<DevicePasses> passes,
                std::unique_ptr<DeviceSpaces> spaces, std::unique_ptr<DeviceUpdate> update);

  const DeviceTrainerOptions options_;
  DeviceMemoryBytes bytes_;
  const std::unique_ptr<DevicePasses> passes_;
  const std::unique_ptr<DeviceSpaces> spaces_;
  const std::unique_ptr<DeviceUpdate> update_;
  const std::unique_ptr<const Model> model_;
  const std::unique_ptr<MicroBatch> micro_batch_;

  float loss_scale_;
  uint64_t steps_ = 0;
  uint64_t clock_ = 0;
  // Of the step, so far.
  uint64_t tokens_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_TRAINER_FOR_TESTING_H_
