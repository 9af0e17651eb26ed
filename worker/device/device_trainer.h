#ifndef MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/compute/device_ops.h"
#include "common/device/device.h"
#include "common/device/matmul/device_matmul.h"
#include "common/kernels/device/device_optimizer.h"
#include "worker/collectives/communicator.h"
#include "worker/data/batch.h"
#include "worker/device/await_device_memory.h"
#include "worker/device/device_batches.h"
#include "worker/device/device_gradient_reducer.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/transformer/transformer_shape.h"
#include "worker/nn/transformer/transformer_units.h"
#include "worker/strategy/bucket_plan.h"
#include "worker/strategy/series_position.h"

namespace muster {

// Of f16 alone: what the loss is multiplied by before backward (worker/nn/loss_scaler.h).
struct LossScaleOptions {
  // Stays as it is; 0: found while training.
  float fixed = 0;
  uint32_t window = LossScaler::kUsualWindow;
};

struct DeviceTrainerOptions {
  TransformerShape shape;
  DeviceComputeOptions compute;
  // Keys dropout.
  uint64_t seed = 0;
  AdamOptions optimizer;
  ClipOptions clip;
  LossScaleOptions loss_scale;
  BucketPlanOptions buckets;
  // Of each collective call, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // CUDA's number of the device.
  int device = 0;
  // How to wait for device memory that others have; empty: not at all.
  WaitFunction wait;
};

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

// Which of the flat spaces.
enum class DeviceSpace { kWeights, kGradients, kFirstMoments, kSecondMoments };

// Trains a transformer on one device, or on the devices of a group of ranks, each a whole replica
// (data parallel): forward, backward, the sum of gradients over ranks, clipping by global norm, and
// AdamW, all in one block of device memory that is planned before the first step. The weights,
// their names and shapes are worker/nn/transformer/transformer_tensors.h's.
//
//   BeginStep(clock); AddMicroBatch(…, kMoreFollow) …; AddMicroBatch(…, kLast);
//   EndStep(learning_rate)
//
// Within a micro-batch the host only queues: batches are staged in pinned memory, sums stay on the
// device, and the whole of forward and backward is one graph, captured once for each extents (in
// the last micro-batch of a group's step one graph for each backward segment: the units after which
// buckets can go). What EndStep does to the weights is a graph too. A step allocates nothing, and
// the host waits once, in EndStep, for the sums and the norm; and in AddMicroBatch where it is four
// batches ahead. Gradients are sums over the step's tokens, in f32, divided once by the number of
// tokens of all micro-batches and ranks.
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
  //   InvalidArgument    the shape is not possible on a device; says why
  //   others             AwaitMemory's
  static absl::StatusOr<std::unique_ptr<DeviceTrainer>> Create(const DeviceTrainerOptions& options,
                                                               Communicator* communicator);
  ~DeviceTrainer();

  // Create's first part, for what takes device memory before it: a communicator of `ranks`, which
  // is none for 1. The device is the calling thread's from then on.
  //   InvalidArgument    the shape or the extents are not possible on a device, or its kernels take
  //                      more shared memory than this one has; says which and why
  //   ResourceExhausted  the device has less memory, without what CUDA and NCCL take for
  //   themselves;
  //                      says how much of it would be for what
  //   DeviceFaultError   no device, or others keep its memory
  static absl::Status AwaitMemory(const DeviceTrainerOptions& options, int ranks = 1);

  const DeviceParameters& parameters() const { return parameters_; }
  const DeviceMemoryBytes& memory() const { return plan_.bytes; }
  std::vector<MatmulChoice> products() const { return matmul_->Choices(); }
  // Null but in f16. Must be alike on all ranks, whose gradients are added as they are scaled.
  LossScaler* loss_scaler() { return loss_scaler_.has_value() ? &*loss_scaler_ : nullptr; }
  // 1 but in f16.
  float loss_scale() const { return loss_scaler_.has_value() ? loss_scaler_->scale() : 1; }
  // Extents of micro-batches whose graphs were captured: those that came twice, of the first few.
  size_t extents_with_graphs() const;
  // Of what the communicator moved, what was not gradients.
  CollectiveTraffic sums_traffic() const {
    return reducer_ != nullptr ? reducer_->sums_traffic() : CollectiveTraffic();
  }
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
  struct Results;
  struct Graphs;
  struct Extents {
    int64_t sequences = 0;
    int64_t length = 0;
    friend bool operator==(const Extents& a, const Extents& b) {
      return a.sequences == b.sequences && a.length == b.length;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Extents& extents) {
      return H::combine(std::move(h), extents.sequences, extents.length);
    }
  };

  DeviceTrainer(const DeviceTrainerOptions& options, DeviceParameters parameters,
                Communicator* communicator);

  absl::Status Allocate();
  absl::Status UploadRotaryTable();
  // Fills the arrays by tensor.
  void PlaceTensors();
  float* SpaceOf(DeviceSpace space) const;
  // The copies for matrix products, of elements [begin, begin + count).
  void Round(uint64_t begin, uint64_t count);
  absl::Status Broadcast(DType type, void* data, size_t count, int root);

  // Returns the last unit of each backward segment: all of backward, or, `divided`, the units up to
  // where the host has a bucket to send.
  std::vector<int> SegmentEnds(bool divided) const;
  TransformerPass PassOf(const TokenRows& rows, Pass pass) const;
  // Queues units [last, first] of backward; with the last unit of all, forward before it.
  void QueueSegment(const TokenRows& rows, int first, int last);
  absl::Status RunMicroBatch(const TokenRows& rows, bool divided, bool reduce);
  // The gradients' norm, and what follows from it.
  void QueueDecision();
  void QueueOptimizer();
  // Both, from the second time on by a graph; Adam's numbers are those in pinned memory.
  absl::Status RunUpdate();
  // Waits for what was queued.
  absl::StatusOr<DeviceStepResult> TakeResult();

  const DeviceTrainerOptions options_;
  const DeviceParameters parameters_;
  Communicator* const communicator_;

  // Buffers go last: streams wait for the work queued when they go.
  DeviceBuffer memory_;
  DeviceBuffer pinned_;
  DeviceMemoryPlan plan_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceBatches> batches_;
  std::unique_ptr<DeviceMatmul> matmul_;
  std::unique_ptr<DeviceOps> ops_;
  std::unique_ptr<TransformerUnits> units_;
  // By tensor, where it lies in the flat spaces; none rounded in f32.
  std::vector<absl::Span<const float>> weights_;
  std::vector<const void*> rounded_;
  std::vector<absl::Span<float>> gradients_;
  std::unique_ptr<DeviceGradientReducer> reducer_;
  absl::flat_hash_map<Extents, std::unique_ptr<Graphs>> graphs_;
  // Of RunUpdate; the first time kernels are launched one by one, as for micro-batches.
  bool update_ran_ = false;
  std::unique_ptr<DeviceGraph> update_;

  // In f16 alone.
  absl::optional<LossScaler> loss_scaler_;
  // What gradients are scaled by.
  float loss_scale_of_step_ = 1;
  uint64_t steps_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_TRAINER_H_
