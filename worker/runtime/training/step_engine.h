#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/kernels/moe/expert_arrays.h"
#include "worker/data/batch.h"
#include "worker/runtime/training/micro_batch_source.h"
#include "worker/runtime/training/noise_scale.h"
#include "worker/runtime/training/step_check.h"

namespace muster {

// This slot's part of a step, summed over its micro-batches.
struct StepSums {
  double loss_sum = 0;
  // Divisor of loss_sum for the mean: MicroBatch::loss_weight.
  uint64_t loss_weight = 0;
  uint64_t examples = 0;
  // The mean gradient of the step's first micro-batch; of a step that is measured (NoiseScale) by
  // an engine on processors that computes the whole model, which has no rows of sparse tables.
  absl::optional<MeanGradient> first_micro_batch;
  // The loss scale that the step ran with; 1 unless the job computes in f16.
  float loss_scale = 1;
  // MicroBatch's, of the slot's own tokens and blocks.
  RouterSums router_sums;
  std::vector<uint64_t> expert_loads;
};

// Says what an evaluation wants of a model's predictions.
enum class PassOutput {
  kScores,
  // Also the probability of each class, of models that fill MicroBatch::probabilities.
  kProbabilities,
};

// The results of a forward pass over a batch.
struct PassResult {
  int64_t examples = 0;
  int64_t loss_weight = 0;
  double loss_sum = 0;
  int64_t correct = 0;
  // See MicroBatch. Valid until the engine's next call.
  absl::Span<const float> scores;
  absl::Span<const float> probabilities;
  absl::Span<const int32_t> predicted;
  absl::Span<const int32_t> labels;
  absl::Span<const float> targets;
};

// Computes a slot's training steps, and evaluation passes between them. The trainer decides what
// comes when; TrainingState keeps the parameters. Used by the trainer's thread. After an error only
// destruction is allowed.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  // Returns the most examples that one batch may have. Where passes make collective calls, all
  // ranks of a job return the same, so that they divide an evaluation into as many batches.
  virtual int64_t most_examples() const = 0;

  // Trains the whole step at `clock`: reads its micro-batches, computes them and closes the clock.
  // Adds to `sums`. OutOfRange: the loss or a gradient is infinite or NaN; the clock was not
  // closed, unless it is the loss of a device. Otherwise errors of the data, of the computation and
  // of the strategy (strategy.h).
  virtual absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) = 0;

  // Does the same, but asks `check` once all gradients are computed: before any leaves this rank,
  // or where each micro-batch's leave (ZeRO stages 2 and 3) before the step ends. Whether loss and
  // gradients are finite is looked at after that, since wrong bits may not be. Also returns the
  // error of `check`. REQUIRES: the model is on processors.
  virtual absl::Status TrainVerified(uint64_t clock, MicroBatchSource& micro_batches,
                                     StepCheck& check, StepSums& sums) = 0;

  // Prepares for evaluations with the parameters of `clock`.
  virtual absl::Status BeginEvaluation(uint64_t clock) = 0;
  // Runs a forward pass without dropout, also over a batch of no examples, whose results are zeros.
  // So are those of a rank that does not compute the last unit.
  // The caller checks that the loss is finite.
  virtual absl::Status Evaluate(const Batch& batch, PassOutput output, PassResult& result) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_
