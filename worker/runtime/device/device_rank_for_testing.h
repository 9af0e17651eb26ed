#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_RANK_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_RANK_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"
#include "common/partition/tensor_spec.h"
#include "common/step/stage_shape.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "worker/collectives/communicator.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/weights/device_shard.h"
#include "worker/runtime/training/micro_batch_source.h"
#include "worker/runtime/training/step_engine.h"

namespace muster {

// A micro-batch, and the place of its first example in the step's batch of all ranks.
struct PlacedBatch {
  Batch batch;
  uint64_t first_example = 0;
};

// The micro-batches of one step, which somebody has made.
class GivenMicroBatches final : public MicroBatchSource {
 public:
  // `batches` outlive the source.
  explicit GivenMicroBatches(absl::Span<const PlacedBatch> batches) : batches_(batches) {}

  int Count(uint64_t) const override { return static_cast<int>(batches_.size()); }
  uint64_t FirstExample(uint64_t, int micro_batch) const override {
    return batches_[micro_batch].first_example;
  }
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) override {
    batch = batches_[micro_batch].batch;
    return absl::OkStatus();
  }

 private:
  const absl::Span<const PlacedBatch> batches_;
};

// Returns what a job's data are if they are sequences of the model's context.
DatasetInfo SequencesFor(const v1::JobSpec& spec, int64_t vocabulary);

// One rank of a job by all-reduce on a device, without a task around it: the strategy and the
// engine that a task makes, on batches of the caller's. Used by one thread.
class DeviceRank {
 public:
  struct Place {
    // The group's communicator; null: the rank is alone.
    std::unique_ptr<Communicator> host;
    // Emulated devices have the memory of the host.
    MakeDeviceCommunicator make_communicator = [](Communicator& host) {
      return host.Split(/*colour=*/0, /*key=*/host.rank());
    };
    int device = 0;
    // Where checkpoints are; null: the rank has a storage of its own.
    CheckpointStorage* storage = nullptr;
    std::string checkpoint_root = "/checkpoints";
    // The checkpoint to start from, and its clock; empty: initial values.
    std::string restore_uri;
    uint64_t start_clock = 0;
    // The rank that is there already; absent: all start.
    absl::optional<int> source;
  };

  // Joins the group and warms the engine up. `spec` has model.transformer, whose data have
  // `vocabulary` tokens. Errors are those of the job's options, the strategy and the engine.
  static absl::StatusOr<std::unique_ptr<DeviceRank>> Create(const v1::JobSpec& spec,
                                                            int64_t vocabulary, Place place);
  static absl::StatusOr<std::unique_ptr<DeviceRank>> Create(const v1::JobSpec& spec,
                                                            int64_t vocabulary) {
    return Create(spec, vocabulary, Place());
  }

  // Joins another group, in which rank `source` and others were in one before, and warms an engine
  // up for it. Errors are those of the strategy and the engine.
  absl::Status Meet(std::unique_ptr<Communicator> host, absl::optional<int> source);

  struct StepResult {
    // The sums of this rank.
    StepSums sums;
    // The norm of the group's mean gradient, before clipping; absent: the step moved nothing.
    absl::optional<double> gradient_norm;
  };

  // Trains the next step on this rank's micro-batches, at least one. Errors are StepEngine's.
  absl::StatusOr<StepResult> Train(absl::Span<const PlacedBatch> micro_batches);

  // Evaluates with the present weights. Errors are StepEngine's.
  absl::StatusOr<PassResult> Evaluate(const Batch& batch);

  // Returns the tensors, or this tensor rank's shares of them.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  ShardedStrategy& strategy() { return *strategy_; }

  // Returns the rank's weights by tensor, empty for tied tensors. Under ZeRO stages this is a
  // collective call, and a tensor that is computed with in 16 bits comes rounded. Without, it is
  // allowed after a failed step, too. The next two are for stage 0.
  absl::StatusOr<std::vector<std::vector<float>>> Weights();
  absl::Status SetWeights(const std::vector<std::vector<float>>& weights);
  // Returns the last step's gradients, summed over examples and ranks, by tensor. REQUIRES: no
  // evaluation has come since.
  absl::StatusOr<std::vector<std::vector<float>>> Gradients();

 private:
  DeviceRank() = default;

  DevicePasses& passes() { return *strategy_.passes(); }
  // Reads the weights unit by unit, as an evaluation does.
  absl::StatusOr<std::vector<std::vector<float>>> AcquiredWeights();
  // Copies `values`, by tensor and in device memory, to the host.
  template <typename T>
  absl::StatusOr<std::vector<std::vector<float>>> Read(absl::Span<const absl::Span<T>> values);

  const RealClock real_clock_;
  MemoryStorage storage_;
  v1::JobSpec spec_;
  DeviceOptions options_;
  ModelStage stage_;
  std::vector<TensorSpec> tensors_;
  DType type_ = DType::kF32;
  // True if no rank holds all weights.
  bool divided_ = false;
  DeviceStrategy strategy_;
  std::unique_ptr<StepEngine> engine_;
  uint64_t clock_ = 0;
  // The loss scale of the last step.
  float loss_scale_ = 1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_RANK_FOR_TESTING_H_
